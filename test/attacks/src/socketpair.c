// Tries: operations that must still work: a socketpair, and passing a descriptor through it within the session.
// Must get: ok.
// Event: none.
#include "attack.h"

static int pair[2];

static long talk(void)
{
	char b;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || write(pair[0], "x", 1) != 1)
		return -1;
	return read(pair[1], &b, 1);
}

static long pass(void)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd = open("/dev/null", O_RDONLY);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || sendmsg(pair[0], &m, 0) < 0)
		return -1;
	return recvmsg(pair[1], &m, 0);
}

int main(int argc, char **argv)
{
	attempt("talk", talk);
	attempt("pass", pass);
}
