// Tries: to open file.txt of a read-only tree (argument 1) for writing through /proc/self/fd, from a descriptor that was
// opened with O_PATH, and from one opened for reading; to read a secret (2) from an O_PATH descriptor.
// Must get: EACCES.
// Event: fs update or read of the file's own path.
#include "attack.h"

static long reopen(const char *file, int flags, int again)
{
	char proc[64];
	int fd = open(file, flags);
	if (fd < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return open(proc, again);
}

static long path_write(void) { return reopen(path(args[0], "file.txt"), O_PATH, O_WRONLY); }
static long read_write(void) { return reopen(path(args[0], "file.txt"), O_RDONLY, O_RDWR); }
static long path_read(void) { return fd_reads(reopen(args[1], O_PATH, O_RDONLY)); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("opath-for-writing", path_write);
	attempt("readonly-for-writing", read_write);
	attempt("opath-for-reading", path_read);
}
