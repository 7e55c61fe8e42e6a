// Tries: to send a signal to a process outside the session (argument 1) by every call that sends one, and to have the
// kernel send it (F_SETOWN). The signals are ones that the process ignores.
// Must get: EPERM; for F_SETOWN no denial, but no signal either.
// Event: landlock's record of the signal, reason syscall_denied.
#include "attack.h"

static long by_kill(void) { return kill(atoi(args[0]), SIGUSR1); }
static long by_tgkill(void) { return syscall(SYS_tgkill, atoi(args[0]), atoi(args[0]), SIGUSR1); }

static long by_queue(void)
{
	union sigval v = {0};
	return sigqueue(atoi(args[0]), SIGUSR1, v);
}

static long by_pidfd(void)
{
	int p = syscall(SYS_pidfd_open, atoi(args[0]), 0);
	if (p < 0)
		return -1;
	return syscall(SYS_pidfd_send_signal, p, SIGUSR1, NULL, 0);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("kill", by_kill);
	attempt("tgkill", by_tgkill);
	attempt("sigqueue", by_queue);
	attempt("pidfd", by_pidfd);
	result("parent", kill(getppid(), 0));
}
