// Tries: to read, change and replace the file .env of the workspace (argument 1), and to make one where there is none, by every
// call that makes a name, under the rule `match = "**/.env"` that grants nothing.
// Must get: EACCES, or EXDEV from link and rename.
// Event: fs of the entry itself, existing or not, by that rule.
#include "attack.h"

static char *there(void) { return path(args[0], ".env"); }
static char *none(void) { return path(args[0], "sub/.env"); }
static char *data(void) { return path(args[0], "data.txt"); }

// gone lets the next attempt find none.
static long gone(long rc)
{
	int e = errno;
	if (rc >= 0)
		remove(none());
	errno = e;
	return rc;
}

static long opened(void) { return fd_reads(open(there(), O_RDONLY)); }
static long written(void) { return open(there(), O_WRONLY | O_APPEND); }
static long cut(void) { return truncate(there(), 1); }
static long created(void) { return gone(open(none(), O_WRONLY | O_CREAT, 0600)); }
static long folder(void) { return gone(mkdir(none(), 0700)); }
static long pipe_made(void) { return gone(mkfifo(none(), 0600)); }
static long pointed(void) { return gone(symlink("/nowhere", none())); }
static long linked(void) { return gone(link(data(), none())); }

static long bound(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || chdir(args[0]) < 0)
		return -1;
	strcpy(a.sun_path, "sub/.env");
	return gone(bind(fd, (struct sockaddr *)&a, sizeof(a)));
}

static long renamed_to(void)
{
	long rc = rename(data(), none());
	if (rc == 0 && rename(none(), data()) < 0)
		error("rename back");
	return rc;
}

static long exchanged(void) { return renameat2(AT_FDCWD, data(), AT_FDCWD, there(), RENAME_EXCHANGE); }
static long renamed_from(void) { return rename(there(), path(args[0], "env")); }
static long hard_link(void) { return link(there(), path(args[0], "env2")); }
static long removed(void) { return unlink(there()); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("read", opened);
	attempt("append", written);
	attempt("truncate", cut);
	attempt("create", created);
	attempt("mkdir", folder);
	attempt("mkfifo", pipe_made);
	attempt("symlink", pointed);
	attempt("link", linked);
	attempt("bind", bound);
	attempt("rename-to", renamed_to);
	attempt("exchange", exchanged);
	attempt("alias", hard_link);
	attempt("unlink", removed);
	// Bare there is none any more: the exchange left data.txt's text in it, which has been removed.
	int fd = open(there(), O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		close(fd);
	attempt("rename-from", renamed_from);
}
