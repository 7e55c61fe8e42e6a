// Tries: to make the other namespaces and to enter those of another process.
// Must get: EPERM.
// Event: syscall unshare, setns, reason syscall_denied.
#include "attack.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static long mounts(void) { return unshare(CLONE_NEWNS); }
static long network(void) { return unshare(CLONE_NEWNET); }
static long pids(void) { return unshare(CLONE_NEWPID); }
static long ipc(void) { return unshare(CLONE_NEWIPC); }
static long names(void) { return unshare(CLONE_NEWUTS); }
static long cgroups(void) { return unshare(CLONE_NEWCGROUP); }
static long times(void) { return unshare(CLONE_NEWTIME); }

static long enter(void)
{
	int p = syscall(SYS_pidfd_open, getpid(), 0);
	if (p < 0)
		return -1;
	return setns(p, CLONE_NEWUTS);
}

int main(int argc, char **argv)
{
	attempt("mount", mounts);
	attempt("net", network);
	attempt("pid", pids);
	attempt("ipc", ipc);
	attempt("uts", names);
	attempt("cgroup", cgroups);
	attempt("time", times);
	attempt("setns", enter);
}
