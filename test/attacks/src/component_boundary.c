// Tries: to read beneath a folder whose name begins with the name of one that is granted (argument 1: a file beneath
// the granted one, 2: a file beneath the other).
// Must get: the first, and EACCES for the second: a path is matched by component, not by byte.
// Event: fs read of the second file.
#include "attack.h"

static long granted(void) { return fd_reads(open(args[0], O_RDONLY)); }
static long longer(void) { return fd_reads(open(args[1], O_RDONLY)); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("granted", granted);
	attempt("longer-name", longer);
}
