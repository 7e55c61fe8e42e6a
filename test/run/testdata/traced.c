// Ends while a process of its own traces it: its parent can't reap it before the tracer has detached. Argument: a mark.
#include <sys/ptrace.h>
#include <unistd.h>

int main(void) {
	int p[2];
	char c;
	pid_t me = getpid();
	if (pipe(p))
		return 1;
	if (fork() == 0) {
		c = ptrace(PTRACE_SEIZE, me, 0, 0) ? 'n' : 'y';
		if (write(p[1], &c, 1) != 1)
			return 1;
		setsid();
		sleep(360);
		_exit(0);
	}
	if (read(p[0], &c, 1) != 1 || c != 'y')
		return 1;
	return 7;
}
