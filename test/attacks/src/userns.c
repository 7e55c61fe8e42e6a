// Tries: to make a user namespace, in which it would have every capability: unshare, clone, clone3.
// Must get: EPERM; ENOSYS from clone3, whose flags no filter can see.
// Event: syscall unshare, clone or clone3, reason syscall_denied.
#include "attack.h"
#include <linux/sched.h>

static long by_unshare(void) { return unshare(CLONE_NEWUSER); }

static long finish(long pid)
{
	if (pid == 0)
		_exit(0);
	return pid;
}

static long by_clone(void) { return finish(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }

static long by_clone3(void)
{
	struct clone_args a = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	return finish(syscall(SYS_clone3, &a, sizeof(a)));
}

int main(int argc, char **argv)
{
	attempt("unshare", by_unshare);
	attempt("clone", by_clone);
	attempt("clone3", by_clone3);
}
