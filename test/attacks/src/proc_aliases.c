// Tries: to reach a secret (argument 2) by aliases: /proc/self/root, /proc/self/cwd with "..", /proc/thread-self,
// a folder descriptor taken with O_PATH, and dots in the path. Argument 1 is the workspace.
// Must get: EACCES.
// Event: fs read of the secret's own path.
#include "attack.h"
#include <libgen.h>

static long by_root(void)
{
	char p[4300];
	snprintf(p, sizeof(p), "/proc/self/root%s", args[1]);
	return fd_reads(open(p, O_RDONLY));
}

static long by_thread_root(void)
{
	char p[4300];
	snprintf(p, sizeof(p), "/proc/thread-self/root%s", args[1]);
	return fd_reads(open(p, O_RDONLY));
}

static long by_cwd(void)
{
	char p[4300];
	if (chdir(args[0]) < 0)
		error("chdir %s", args[0]);
	snprintf(p, sizeof(p), "/proc/self/cwd/../../../../../../../..%s", args[1]);
	return fd_reads(open(p, O_RDONLY));
}

static long by_dots(void)
{
	char p[4300];
	snprintf(p, sizeof(p), "%s/sub/./../../../../../../../../..//%s", args[0], args[1]);
	return fd_reads(open(p, O_RDONLY));
}

static long by_folder(void)
{
	char dir[4200], base[4200];
	snprintf(dir, sizeof(dir), "%s", args[1]);
	snprintf(base, sizeof(base), "%s", args[1]);
	int fd = open(dirname(dir), O_PATH | O_DIRECTORY);
	if (fd < 0)
		return -1;
	return fd_reads(openat(fd, basename(base), O_RDONLY));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("root", by_root);
	attempt("thread-root", by_thread_root);
	attempt("cwd", by_cwd);
	attempt("dots", by_dots);
	attempt("folder-descriptor", by_folder);
}
