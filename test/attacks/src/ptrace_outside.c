// Tries: to trace a process outside the session (argument 1: its pid), the one that supervises the session included.
// Must get: EPERM.
// Event: syscall ptrace where seccomp denies it, else landlock's own record of it.
#include "attack.h"
#include <sys/ptrace.h>

static long attach(void)
{
	int pid = atoi(args[0]);
	if (ptrace(PTRACE_ATTACH, pid, 0, 0) < 0)
		return -1;
	waitpid(pid, NULL, 0);
	ptrace(PTRACE_DETACH, pid, 0, 0); // or it would stay stopped
	return 0;
}

static long seize(void) { return ptrace(PTRACE_SEIZE, atoi(args[0]), 0, 0); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("seize", seize);
	attempt("attach", attach);
}
