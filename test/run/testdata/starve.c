// Makes the threads of its parent run only when the processor is idle, on one processor, and keeps that processor busy. It ends
// after a time that is longer than the test waits. Arguments: a mark, and the number of busy processes.
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
	// The parent's threads can't be listed. Above the capacity of the kernel's queue of records, 64, each denial may block this process for
	// a minute (audit_log_start), unkillable.
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
