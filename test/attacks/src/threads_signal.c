// Tries: to signal every thread of the process that started this one, by every call that sends a signal, and to have the kernel
// send one (F_SETOWN_EX) to it and to the process group. The parent of a command passes SIGUSR2 on to it, which shows a received signal.
// Must get: EPERM; from the kernel's sending no error, but no signal either.
// Event: landlock's record of the signal, reason syscall_denied.
#include "attack.h"
#include <time.h>

static pid_t starter;
static const struct timespec soon = {0, 50 * 1000 * 1000};

static long by_tgkill(pid_t t) { return syscall(SYS_tgkill, starter, t, SIGUSR2); }
static long by_tkill(pid_t t) { return syscall(SYS_tkill, t, SIGUSR2); }
static long by_kill(pid_t t) { return kill(t, SIGUSR2); }

static siginfo_t queued(void) { return (siginfo_t){.si_signo = SIGUSR2, .si_code = SI_QUEUE}; }

static long by_queue(pid_t t)
{
	siginfo_t i = queued();
	return syscall(SYS_rt_sigqueueinfo, t, SIGUSR2, &i);
}

static long by_thread_queue(pid_t t)
{
	siginfo_t i = queued();
	return syscall(SYS_rt_tgsigqueueinfo, starter, t, SIGUSR2, &i);
}

static long by_pidfd(pid_t t)
{
	int p = syscall(SYS_pidfd_open, t, O_EXCL /* PIDFD_THREAD, Linux 6.9 */);
	if (p < 0 && errno == EINVAL)
		p = syscall(SYS_pidfd_open, starter, 0);
	return p < 0 ? -1 : syscall(SYS_pidfd_send_signal, p, SIGUSR2, NULL, 0);
}

// later is how long a signal may take: where it can come, as long as a slow machine needs.
static struct timespec later(void)
{
	struct timespec wait = {kill(starter, 0) < 0 ? 1 : 60, 0};
	return wait;
}

// came reports whether the signal has been passed on: by this process's parent, not by the sender to its group.
static long came(struct timespec wait)
{
	sigset_t usr2;
	siginfo_t i;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	while (sigtimedwait(&usr2, &i, &wait) == SIGUSR2)
		if (i.si_code == SI_USER && i.si_pid == starter)
			return 0;
	errno = EPERM;
	return -1;
}

// by_owner writes to a pipe whose owner gets a signal.
static long by_owner(int type, pid_t id)
{
	struct f_owner_ex owner = {type, id};
	int ends[2];
	if (pipe(ends) < 0 || fcntl(ends[0], F_SETSIG, SIGUSR2) < 0)
		return -1;
	// From a process of its own, the group's youngest: what the kernel takes a group for is its youngest member.
	pid_t pid = fork();
	if (pid == 0)
		_exit(fcntl(ends[0], F_SETOWN_EX, &owner) < 0 ? errno : 0);
	int status;
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -1;
	if (WEXITSTATUS(status) != 0) {
		errno = WEXITSTATUS(status);
		return -1;
	}
	setpgid(0, 0); // out of the group, whose signal would hide the one that is passed on
	if (fcntl(ends[0], F_SETFL, O_ASYNC) < 0 || write(ends[1], "x", 1) < 0)
		return -1;
	return came(type == F_OWNER_TID ? soon : later());
}

static long by_thread_owner(pid_t t) { return by_owner(F_OWNER_TID, t); }

// by_any_owner waits longer for all threads than for each: one signal is enough.
static long by_any_owner(void)
{
	long rc = each_thread(starter, by_thread_owner);
	return rc < 0 ? came(later()) : rc;
}

static long (*chosen)(pid_t);

static long try_all(void) { return each_thread(starter, chosen); }

static void try(const char *name, long (*f)(pid_t))
{
	chosen = f;
	attempt(name, try_all);
	came(soon); // nothing is left for the next one
}

int main(int argc, char **argv)
{
	sigset_t usr2;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sigprocmask(SIG_BLOCK, &usr2, NULL);
	starter = getppid();
	pid_t group = getpgrp();
	try("tgkill", by_tgkill);
	try("tkill", by_tkill);
	try("kill", by_kill);
	try("sigqueue", by_queue);
	try("tgsigqueue", by_thread_queue);
	try("pidfd", by_pidfd);
	// In this process itself, which it's passed on to.
	result("owner-thread", by_any_owner());
	result("owner-process", by_owner(F_OWNER_PID, starter));
	result("owner-group", by_owner(F_OWNER_PGRP, group));
}
