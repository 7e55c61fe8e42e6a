// Tries: to access files that a rule denies through mounts at their paths: a tmpfs in a folder that may not be read (argument 1), an overlay
// in a folder that may only be read (2), whose files are copied up when they're opened for writing, or to be emptied: without what was in them.
// Must get: EACCES, and the file keeps its bytes.
// Event: fs of the path at which it's mounted, by the rule above the mount.
#include "attack.h"

static long tmpfs(void) { return fd_reads(open(path(args[0], "file"), O_RDONLY)); }
static long made(void) { return open(path(args[0], "new"), O_WRONLY | O_CREAT, 0600); }
static long lower(void) { return fd_reads(open(path(args[1], "note"), O_RDONLY)); }
static long copied_up(void) { return open(path(args[1], "note"), O_WRONLY); }
static long mode(void) { return chmod(path(args[1], "note"), 0600); }

static long emptied(void) { return open(path(args[1], "note"), O_RDONLY | O_TRUNC); }

static long kept(void)
{
	struct stat st;
	if (stat(path(args[1], "note"), &st) || st.st_size > 0)
		return 0;
	errno = ENODATA;
	return -1;
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("tmpfs-read", tmpfs);
	attempt("tmpfs-create", made);
	attempt("overlay-read", lower);
	attempt("overlay-empty", emptied);
	attempt("overlay-kept", kept);
	attempt("overlay-write", copied_up);
	attempt("overlay-chmod", mode);
}
