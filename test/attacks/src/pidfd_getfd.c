// Tries: to copy descriptor 50 from a process outside the session (argument 1).
// Must get: EPERM.
// Event: syscall pidfd_getfd where seccomp denies it.
#include "attack.h"

static long take(void)
{
	int p = syscall(SYS_pidfd_open, atoi(args[0]), 0);
	if (p < 0)
		return -1;
	return fd_reads(syscall(SYS_pidfd_getfd, p, 50, 0));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("take", take);
}
