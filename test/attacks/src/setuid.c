// Tries: to become root by executing a set-user-ID program (argument 1, which says what it became).
// Must get: the program runs as who started it, since no_new_privs is set.
// Event: none: nothing is refused.
#include "attack.h"

int main(int argc, char **argv)
{
	execl(argv[1], argv[1], NULL);
	result("exec", -1);
}
