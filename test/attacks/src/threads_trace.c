// Tries: to trace every thread of the process that started this one, to read and write its memory, to take its descriptors, to
// change its limits and its place among those that the kernel ends when memory runs out. One of toolguard's threads is
// restricted like the command itself, and shares all with the others.
// Must get: EPERM, or EACCES for entries in /proc. As root the last is granted with the files in /proc.
// Event: syscall, reason syscall_denied, where seccomp denies; landlock's own record where it's the one that does.
#include "attack.h"
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

static pid_t starter;

static long one(pid_t t) { return 0; }

static long another(pid_t t)
{
	errno = ESRCH;
	return t == starter ? -1 : 0;
}

static long seize(pid_t t) { return ptrace(PTRACE_SEIZE, t, 0, 0); }

static long attach(pid_t t)
{
	if (ptrace(PTRACE_ATTACH, t, 0, 0) < 0)
		return -1;
	waitpid(t, NULL, __WALL);
	ptrace(PTRACE_DETACH, t, 0, 0); // or it would stay stopped
	return 0;
}

// An address where nothing may be is as good as any: the question is who may ask.
static long copies(ssize_t (*copy)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long),
		   pid_t t)
{
	char byte = 0;
	struct iovec here = {&byte, 1}, there = {(void *)8, 1};
	return copy(t, &here, 1, &there, 1, 0) < 0 && errno != EFAULT ? -1 : 0;
}

static long readv_(pid_t t) { return copies(process_vm_readv, t); }
static long writev_(pid_t t) { return copies(process_vm_writev, t); }

static long open_entry(pid_t t, const char *entry, int flags)
{
	char name[64];
	snprintf(name, sizeof(name), "/proc/%d/%s", t, entry);
	return open(name, flags);
}

static long memory(pid_t t) { return open_entry(t, "mem", O_RDWR); }
static long environment(pid_t t) { return open_entry(t, "environ", O_RDONLY); }
static long descriptors(pid_t t) { return open_entry(t, "fd/0", O_RDONLY); }

static long victim(pid_t t)
{
	int fd = open_entry(t, "oom_score_adj", O_RDWR);
	char old[16];
	ssize_t n = fd < 0 ? -1 : read(fd, old, sizeof(old));
	return n < 0 ? -1 : pwrite(fd, old, n, 0);
}

static long take(pid_t t)
{
	int p = syscall(SYS_pidfd_open, t, O_EXCL /* PIDFD_THREAD, Linux 6.9 */);
	if (p < 0 && errno == EINVAL)
		p = syscall(SYS_pidfd_open, starter, 0);
	return p < 0 ? -1 : syscall(SYS_pidfd_getfd, p, 0, 0);
}

static long compare(pid_t t) { return syscall(SYS_kcmp, t, getpid(), 1 /* KCMP_VM */, 0, 0); }

static long limits(pid_t t)
{
	struct rlimit same;
	if (getrlimit(RLIMIT_CORE, &same) < 0)
		return -1;
	return prlimit(t, RLIMIT_CORE, &same, NULL);
}

static long (*chosen)(pid_t);

static long try_all(void) { return each_thread(starter, chosen); }

static void try(const char *name, long (*f)(pid_t))
{
	chosen = f;
	attempt(name, try_all);
}

int main(int argc, char **argv)
{
	starter = getppid();
	try("finds-it", one);
	try("has-threads", another);
	try("seize", seize);
	try("attach", attach);
	try("readv", readv_);
	try("writev", writev_);
	try("mem", memory);
	try("environ", environment);
	try("fd", descriptors);
	try("oom_score_adj", victim);
	try("getfd", take);
	try("kcmp", compare);
	try("prlimit", limits);
}
