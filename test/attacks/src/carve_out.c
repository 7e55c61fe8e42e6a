// Tries: to access files that rules deny beneath a granted folder (argument 1): private/key, by every way to open it, and
// nest/inner by the folder above; to gain a capability by another name of kept/file, which may only be read, and by moving a file to
// where execution is granted (2).
// Must get: EACCES; EXDEV where the gain is denied.
// Event: fs of the object itself, reason rule_denies with the rule beneath the grant, or no_gain.
#include "attack.h"

static char *key(void) { return path(args[0], "private/key"); }

static long opened(void) { return fd_reads(open(key(), O_RDONLY)); }
static long listed(void) { return open(path(args[0], "private"), O_RDONLY | O_DIRECTORY); }
static long created(void) { return open(path(args[0], "private/new"), O_WRONLY | O_CREAT | O_EXCL, 0600); }
static long removed(void) { return unlink(path(args[0], "private/other")); }

static long by_symlink(void)
{
	char *name = path(args[0], "way");
	if (symlink("private/key", name) < 0 && errno != EEXIST)
		error("symlink");
	return fd_reads(open(name, O_RDONLY));
}

static long by_fchdir(void)
{
	int fd = open(path(args[0], "private"), O_PATH | O_DIRECTORY);
	if (fd < 0 || fchdir(fd) < 0)
		return -1;
	return fd_reads(open("key", O_RDONLY));
}

static long by_handle(void)
{
	char proc[64];
	int fd = open(key(), O_PATH);
	if (fd < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return fd_reads(open(proc, O_RDONLY));
}

static long text(void)
{
	char text[8];
	return readlink(path(args[0], "private/key-by-link"), text, sizeof(text));
}

static long text_by_handle(void)
{
	char text[8];
	int fd = open(path(args[0], "private/key-by-link"), O_PATH | O_NOFOLLOW);
	return fd < 0 ? -1 : readlinkat(fd, "", text, sizeof(text));
}

// To go through the link needs nothing.
static long through(void) { return fd_reads(open(path(args[0], "private/out"), O_RDONLY)); }

static long by_link(void) { return link(key(), path(args[0], "alias")); }
static long by_rename(void) { return rename(key(), path(args[0], "moved")); }

// What lies above the rule's path can't be moved either, nor something put in its place.
static long above(void) { return rename(path(args[0], "nest"), path(args[0], "nest2")); }
static long exchanged(void)
{
	return renameat2(AT_FDCWD, path(args[0], "nest"), AT_FDCWD, path(args[0], "sub"), RENAME_EXCHANGE);
}

static long gain_update(void) { return link(path(args[0], "kept/file"), path(args[0], "writable")); }
static long gain_execute(void) { return rename(path(args[0], "data.txt"), path(args[1], "program")); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("open", opened);
	attempt("list", listed);
	attempt("create", created);
	attempt("delete", removed);
	attempt("symlink", by_symlink);
	attempt("fchdir", by_fchdir);
	attempt("opath", by_handle);
	attempt("text", text);
	attempt("text-opath", text_by_handle);
	attempt("through", through);
	attempt("gain-update", gain_update);
	attempt("gain-execute", gain_execute);
	attempt("link", by_link);
	attempt("rename", by_rename);
	attempt("exchange-above", exchanged);
	attempt("rename-above", above);
}
