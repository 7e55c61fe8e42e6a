// Tries: to create files in a tree that may only be read (argument 1) by opening them for reading with O_CREAT.
// Must get: EACCES, and no file.
// Event: fs create, reason rule_denies.
#include "attack.h"

static long by_open(void) { return open(path(args[0], "n1"), O_RDONLY | O_CREAT, 0600); }
static long exclusive(void) { return open(path(args[0], "n2"), O_RDONLY | O_CREAT | O_EXCL, 0600); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("open-creat", by_open);
	attempt("open-creat-excl", exclusive);
}
