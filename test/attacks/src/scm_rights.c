// Tries: to receive from its standard input, when that is a unix socket, the descriptor of a file that it may not open.
// Must get: nothing, where the backend sees received descriptors. Landlock has no hook for it: its stated gap. It takes
// a helper outside the session that holds the other end of standard input, output or error.
// Event: none under landlock, where nothing is refused.
#include "attack.h"

static long receive(void)
{
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	int fd;
	if (recvmsg(0, &m, 0) < 0)
		return -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c) {
		errno = ENOENT;
		return -1;
	}
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd_reads(fd);
}

int main(int argc, char **argv)
{
	attempt("receive", receive);
}
