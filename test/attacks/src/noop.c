// Tries: nothing. It's the program that other attacks try to execute; it answers in the name of the attempt that
// started it (argument 1).
// Must get: to run where execution is granted, and only there.
// Event: none of its own.
#include "attack.h"

int main(int argc, char **argv)
{
	result(argc > 1 ? argv[1] : "executed", 0);
}
