// Tries: to talk to a service outside the session over a unix socket, as docker's (argument 1), whose folder may be read: by its path,
// a symlink in the workspace (3), /proc/self/root, the folder as working directory. A second socket (2) is granted.
// Must get: EACCES; the granted one connects.
// Event: fs update of the socket's path.
#include "attack.h"

static long to(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0)
		return -1;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", name);
	return connect(fd, (struct sockaddr *)&a, sizeof(a));
}

static long direct(void) { return to(args[0]); }
static long root(void) { return to(path("/proc/self/root", args[0] + 1)); }

static long by_symlink(void)
{
	char *name = path(args[2], "sock");
	if (symlink(args[0], name) < 0)
		error("symlink");
	return to(name);
}

static long by_folder(void)
{
	char *slash = strrchr(args[0], '/');
	*slash = 0;
	if (chdir(args[0]) < 0)
		return -1;
	return to(slash + 1);
}

static long granted(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0)
		return -1;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", args[1]);
	return connect(fd, (struct sockaddr *)&a, sizeof(a));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("path", direct);
	attempt("symlink", by_symlink);
	attempt("proc-root", root);
	attempt("folder", by_folder);
	attempt("granted", granted);
}
