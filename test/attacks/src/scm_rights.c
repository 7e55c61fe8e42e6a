// Tries: to receive from its standard input, when that is a unix socket, the descriptor of a file that it may not open, then one of a
// network socket, which it would be to connect.
// Must get: nothing, where the backend sees received descriptors. Landlock has no hook for it: its stated gap. It takes
// a helper outside the session that has the other end of standard input, output or error.
// Event: fs read of the file, net of the socket; none under landlock, where nothing is denied.
#include "attack.h"

static int received(void)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd;
	if (recvmsg(0, &m, 0) < 0)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c) {
		errno = ENOENT;
		return -1;
	}
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

static long file(void) { return fd_reads(received()); }

static long network(void)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = received();
	return fd < 0 ? -1 : connect(fd, &none, sizeof(none));
}

int main(int argc, char **argv)
{
	attempt("receive", file);
	attempt("receive-network", network);
}
