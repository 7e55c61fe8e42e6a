// Has every thread of the process that started it run only when nothing else would, on one processor, and sees to it that something
// else always would. It gives up by itself after a while, which is longer than the test has patience. Arguments: a mark,
// and how many others.
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv) {
	struct sched_param none = {0};
	pid_t parent = getppid();
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	// Theirs can't be listed. Of more refusals than the kernel's queue of records has room for, 64, each may hold this very process for
	// a minute (audit_log_start), and nothing ends it.
	for (pid_t thread = parent; thread < parent + 24; thread++) {
		if (thread == getpid())
			continue;
		sched_setaffinity(thread, sizeof(one), &one);
		sched_setscheduler(thread, SCHED_IDLE, &none);
		setpriority(PRIO_PROCESS, thread, 19);
	}
	for (int i = 0; argc > 2 && i < atoi(argv[2]); i++)
		if (fork() == 0)
			break;
	alarm(360);
	for (;;)
		;
}
