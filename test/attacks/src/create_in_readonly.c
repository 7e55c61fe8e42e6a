// Tries: to make every kind of thing in a tree that may only be read (argument 1).
// Must get: EACCES.
// Event: fs create, reason rule_denies.
#include "attack.h"

static long file(void) { return open(path(args[0], "n1"), O_WRONLY | O_CREAT, 0600); }
static long folder(void) { return mkdir(path(args[0], "n2"), 0700); }
static long fifo(void) { return mkfifo(path(args[0], "n3"), 0600); }
static long link_to(void) { return symlink("file.txt", path(args[0], "n4")); }
static long node(void) { return mknod(path(args[0], "n5"), S_IFREG | 0600, 0); }
static long hard(void) { return link(path(args[0], "file.txt"), path(args[0], "n6")); }

static long sock(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0)
		return -1;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/n7", args[0]);
	return bind(fd, (struct sockaddr *)&a, sizeof(a));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("file", file);
	attempt("mkdir", folder);
	attempt("mkfifo", fifo);
	attempt("symlink", link_to);
	attempt("mknod", node);
	attempt("link", hard);
	attempt("bind", sock);
}
