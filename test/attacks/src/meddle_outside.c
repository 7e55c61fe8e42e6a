// Tries: to change how a process outside the session (argument 1), or a whole group, runs: its limits, priority
// and processors; to see its memory pages and its robust list.
// Must get: EPERM. Landlock has no hook for these calls; where seccomp lets them through they are a stated gap.
// Event: syscall, reason syscall_denied, where seccomp denies them.
#include "attack.h"
#include <sys/resource.h>

static int pid(void) { return atoi(args[0]); }

static long limits(void)
{
	struct rlimit old;
	if (prlimit(pid(), RLIMIT_CORE, NULL, &old) < 0)
		return -1;
	return prlimit(pid(), RLIMIT_CORE, &old, NULL);
}

static long priority(void) { return setpriority(PRIO_PROCESS, pid(), getpriority(PRIO_PROCESS, pid())); }

static long group(void)
{
	setpgid(0, 0); // its group may have processes outside the session
	return setpriority(PRIO_PGRP, 0, getpriority(PRIO_PROCESS, 0));
}

static long input(void) { return syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, pid(), 2 << 13 | 4 /* the default */); }

static long idle(void)
{
	struct sched_param none = {0};
	return sched_setscheduler(pid(), SCHED_IDLE, &none);
}

static long param(void)
{
	struct sched_param none = {0};
	return sched_setparam(pid(), &none);
}

static long attr(void)
{
	struct { uint32_t size, policy; uint64_t flags, rest[5]; } a;
	if (syscall(SYS_sched_getattr, pid(), &a, sizeof(a), 0) < 0)
		return -1;
	return syscall(SYS_sched_setattr, pid(), &a, 0);
}

static long processors(void)
{
	cpu_set_t set;
	if (sched_getaffinity(pid(), sizeof(set), &set) < 0)
		return -1;
	return sched_setaffinity(pid(), sizeof(set), &set);
}

static long pages(void)
{
	void *page = NULL;
	int status;
	return syscall(SYS_move_pages, pid(), 1UL, &page, NULL, &status, 0);
}

static long robust(void)
{
	void *head;
	size_t size;
	return syscall(SYS_get_robust_list, pid(), &head, &size);
}

static long compare(void) { return syscall(SYS_kcmp, pid(), getpid(), 1 /* KCMP_VM */, 0, 0); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("prlimit", limits);
	attempt("setpriority", priority);
	attempt("setpriority-group", group);
	attempt("ioprio_set", input);
	attempt("sched_setparam", param);
	attempt("sched_setattr", attr);
	attempt("sched_setscheduler", idle);
	attempt("sched_setaffinity", processors);
	attempt("move_pages", pages);
	attempt("get_robust_list", robust);
	attempt("kcmp", compare);
}
