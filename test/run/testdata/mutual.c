// Has a child trace it and traces the child, each to stop the other as it ends: then no signal ends them. Ends with 7 where it may not.
// Argument: a mark.
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(void) {
	int p[2];
	char c;
	pid_t me = getpid(), child;
	if (pipe(p))
		return 1;
	close(1); // or the reader of its output would block forever
	close(2);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); // for Yama
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		c = ptrace(PTRACE_SEIZE, me, 0, PTRACE_O_TRACEEXIT) ? 'n' : 'y';
		if (write(p[1], &c, 1) != 1)
			return 1;
		sleep(360);
		_exit(0);
	}
	if (read(p[0], &c, 1) != 1 || c != 'y')
		return 1;
	if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACEEXIT))
		return 7;
	sleep(360);
	return 0;
}
