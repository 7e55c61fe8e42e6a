// Tries: to use descriptors that its parent left open: a folder at descriptor 7 (to open file.txt beneath it) and a file at 8.
// Must get: EBADF, since both were closed.
// Event: none: there is nothing to deny.
#include "attack.h"

static long folder(void) { return fd_reads(openat(7, "file.txt", O_RDONLY)); }
static long file(void) { return fd_reads(8); }
static long climb(void) { return fchdir(7); }

int main(int argc, char **argv)
{
	attempt("folder", folder);
	attempt("file", file);
	attempt("fchdir", climb);
}
