// Tries: to be found by a process outside that looks for a service by its abstract name (argument 1): as a stream and by datagrams. It makes
// a file in the workspace (2) when it waits, and finds one there when the process has looked.
// Must get: EAGAIN, no connection. Landlock's scopes are about what a session connects to: a stated gap where sockets can be made.
// Event: none: the session is denied nothing.
#include "attack.h"

static int named(int type)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t length = strlen(args[0]);
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);
	memcpy(a.sun_path + 1, args[0], length);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, offsetof(struct sockaddr_un, sun_path) + 1 + length) < 0)
		return -1;
	return fd;
}

static void visited(const char *waiting, const char *then)
{
	if (creat(path(args[1], waiting), 0600) < 0)
		error("%s", waiting);
	for (int i = 0; access(path(args[1], then), F_OK) < 0; i++) {
		if (i == 6000)
			error("no process has connected");
		usleep(20000);
	}
}

static long stream(void)
{
	int fd = named(SOCK_STREAM);
	if (fd < 0 || listen(fd, 1) < 0)
		return -1;
	visited("waiting-stream", "visited-stream");
	return accept(fd, NULL, NULL);
}

static long datagram(void)
{
	char byte;
	int fd = named(SOCK_DGRAM);
	if (fd < 0)
		return -1;
	visited("waiting-datagram", "visited-datagram");
	return recv(fd, &byte, 1, 0);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("stream", stream);
	attempt("datagram", datagram);
}
