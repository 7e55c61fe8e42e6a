// Tries: to give a file outside (argument 2, file.txt) a name in the workspace (argument 1), where it may be read and
// written; to give data.txt of the workspace a name outside.
// Must get: EACCES or EXDEV.
// Event: fs, reason outside_workspace.
#include "attack.h"

static long in(void)
{
	if (link(path(args[1], "file.txt"), path(args[0], "linked")) < 0)
		return -1;
	return open(path(args[0], "linked"), O_RDWR);
}

static long in_by_descriptor(void)
{
	char proc[64];
	int fd = open(path(args[1], "file.txt"), O_PATH);
	if (fd < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, AT_FDCWD, path(args[0], "linked2"), AT_SYMLINK_FOLLOW);
}

static long out(void) { return link(path(args[0], "data.txt"), path(args[1], "linked")); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("in", in);
	attempt("in-by-descriptor", in_by_descriptor);
	attempt("out", out);
}
