// Tries: to read the files in /proc of a process outside the session (argument 1: pid, 2: address of a secret): its
// memory, environment, open files, root and memory map.
// Must get: EACCES or EPERM.
// Event: fs read of /proc/PID/…, reason outside_workspace.
#include "attack.h"

static char *proc(const char *name)
{
	static char p[64];
	snprintf(p, sizeof(p), "/proc/%s/%s", args[0], name);
	return p;
}

static long memory(void)
{
	char b[6];
	int fd = open(proc("mem"), O_RDONLY);
	if (fd < 0)
		return -1;
	return pread(fd, b, sizeof(b), strtoul(args[1], NULL, 16));
}

static long memory_write(void) { return open(proc("mem"), O_RDWR); }
static long environment(void) { return fd_reads(open(proc("environ"), O_RDONLY)); }
static long descriptor(void) { return fd_reads(open(proc("fd/50"), O_RDONLY)); }
static long root(void) { return fd_reads(open(proc("root/etc/passwd"), O_RDONLY)); }
static long maps(void) { return fd_reads(open(proc("maps"), O_RDONLY)); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("mem", memory);
	attempt("mem-write", memory_write);
	attempt("environ", environment);
	attempt("fd", descriptor);
	attempt("root", root);
	attempt("maps", maps);
}
