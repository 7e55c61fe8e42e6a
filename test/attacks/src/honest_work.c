// Tries: granted operations: reads, writes, renames, links, removals and folders in the workspace (argument 1),
// reading a read-only tree (2), a temporary file in $TMPDIR, a child, a thread, a signal to itself, a pipe.
// Must get: ok. It's the control that a confined program can work at all.
// Event: none.
#include "attack.h"
#include <pthread.h>

static long read_it(void) { return fd_reads(open(path(args[0], "data.txt"), O_RDONLY)); }
static long read_only(void) { return fd_reads(open(path(args[1], "file.txt"), O_RDONLY)); }
static long create(void) { return open(path(args[0], "made"), O_WRONLY | O_CREAT | O_EXCL, 0600); }
static long update(void) { return open(path(args[0], "made"), O_WRONLY | O_TRUNC); }
static long move(void) { return rename(path(args[0], "made"), path(args[0], "sub/moved")); }
static long hard(void) { return link(path(args[0], "sub/moved"), path(args[0], "hard")); }
static long exchange(void)
{
	return renameat2(AT_FDCWD, path(args[0], "hard"), AT_FDCWD, path(args[0], "sub/moved"), RENAME_EXCHANGE);
}
static long remove_it(void) { return unlink(path(args[0], "hard")); }
static long folder(void) { return mkdir(path(args[0], "folder"), 0700) < 0 ? -1 : rmdir(path(args[0], "folder")); }

static long temporary(void)
{
	char *dir = getenv("TMPDIR");
	return open(path(dir ? dir : "/nowhere", "t"), O_RDWR | O_CREAT, 0600);
}

static void *nothing(void *p) { return p; }

static long thread(void)
{
	pthread_t t;
	errno = pthread_create(&t, NULL, nothing, NULL);
	return errno ? -1 : pthread_join(t, NULL);
}

static long signal_self(void)
{
	signal(SIGUSR1, SIG_IGN);
	return kill(getpid(), SIGUSR1);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("read", read_it);
	attempt("read-readonly", read_only);
	attempt("create", create);
	attempt("update", update);
	attempt("rename", move);
	attempt("link", hard);
	attempt("exchange", exchange);
	attempt("unlink", remove_it);
	attempt("mkdir", folder);
	attempt("tmpdir", temporary);
	attempt("thread", thread);
	attempt("signal", signal_self);
}
