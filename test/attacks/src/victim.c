// Tries: nothing. It's the process of the same user outside the session that other attacks try to reach: it has a
// secret in memory and in its environment, keeps a descriptor of a file open (number 50), and listens on an abstract
// unix socket (argument 1), on a stream socket by path (2) and on a datagram socket by path (3). It says
// "READY pid address" and ends when its input does.
// Must get: left alone.
// Event: none of its own.
#include "attack.h"

static char secret[] = "VICTIM-SECRET";

static void listen_at(int type, const char *name, int abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	size_t length = strlen(name);
	memcpy(a.sun_path + abstract, name, length);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, offsetof(struct sockaddr_un, sun_path) + abstract + length) < 0)
		error("bind %s", name);
	if (type == SOCK_STREAM && listen(fd, 64) < 0)
		error("listen %s", name);
}

int main(int argc, char **argv)
{
	char byte;
	if (argc != 5)
		error("four arguments");
	signal(SIGUSR1, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // where Yama would get in the way of the control
	listen_at(SOCK_STREAM, argv[1], 1);
	listen_at(SOCK_STREAM, argv[2], 0);
	listen_at(SOCK_DGRAM, argv[3], 0);
	if (dup2(open(argv[4], O_RDWR), 50) < 0)
		error("open %s", argv[4]);
	dprintf(1, "READY %d %p\n", getpid(), (void *)secret);
	while (read(0, &byte, 1) > 0)
		;
}
