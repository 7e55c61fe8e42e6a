// Tries: to make the device file of the kernel's memory and of the disk in the workspace (argument 1), where files may
// be created, and to open it.
// Must get: EPERM or EACCES.
// Event: none: CAP_MKNOD is missing, and that denial has no record.
#include "attack.h"
#include <sys/sysmacros.h>

static long character(void) { return mknod(path(args[0], "mem"), S_IFCHR | 0666, makedev(1, 1)); }
static long block(void) { return mknod(path(args[0], "disk"), S_IFBLK | 0666, makedev(254, 0)); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("character", character);
	attempt("block", block);
}
