// Tries: to read a secret (argument 1) under the name of a program that one might trust, and as a process that its
// own user may not look into.
// Must get: EACCES.
// Event: fs read, reason outside_workspace.
#include "attack.h"

static long as(const char *name)
{
	if (prctl(PR_SET_NAME, name) < 0)
		error("PR_SET_NAME");
	return fd_reads(open(args[0], O_RDONLY));
}

static long dpkg(void) { return as("dpkg"); }
static long toolguard(void) { return as("toolguard"); }
static long kernel(void) { return as("kworker/0:0"); }

static long undumpable(void)
{
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		error("PR_SET_DUMPABLE");
	return fd_reads(open(args[0], O_RDONLY));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("dpkg", dpkg);
	attempt("toolguard", toolguard);
	attempt("kworker", kernel);
	attempt("undumpable", undumpable);
}
