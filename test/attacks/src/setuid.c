// Tries: to become root by executing a set-user-ID program (argument 1, which prints its user).
// Must get: the program runs as the user that started it, since no_new_privs is set.
// Event: none: nothing is denied.
#include "attack.h"

int main(int argc, char **argv)
{
	execl(argv[1], argv[1], NULL);
	result("exec", -1);
}
