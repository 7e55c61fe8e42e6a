// Tries: to read what /proc shows to every user of a process outside the session (argument 1: pid) and of the kernel.
// Must get: EACCES; under Landlock an ordinary user's session gets it, a stated gap.
// Event: fs read of the file, reason outside_workspace.
#include "attack.h"

static char *proc(const char *name)
{
	static char p[64];
	snprintf(p, sizeof(p), "/proc/%s/%s", args[0], name);
	return p;
}

static long arguments(void) { return fd_reads(open(proc("cmdline"), O_RDONLY)); }
static long status(void) { return fd_reads(open(proc("status"), O_RDONLY)); }
static long kernel(void) { return fd_reads(open("/proc/cmdline", O_RDONLY)); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("cmdline", arguments);
	attempt("status", status);
	attempt("kernel", kernel);
}
