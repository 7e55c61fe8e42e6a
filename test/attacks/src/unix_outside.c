// Tries: to talk to a process outside the session over unix sockets: abstract (argument 1), a stream by path (2),
// a datagram by path (3) with connect, sendto and sendmsg.
// Must get: EACCES or EPERM.
// Event: of the calls socket and socketpair, reason syscall_denied; from Landlock ABI 9 on of the connection.
#include "attack.h"

static struct sockaddr_un a = {.sun_family = AF_UNIX};

static socklen_t to(const char *name, int abstract)
{
	size_t length = strlen(name);
	memset(a.sun_path, 0, sizeof(a.sun_path));
	memcpy(a.sun_path + abstract, name, length);
	return offsetof(struct sockaddr_un, sun_path) + abstract + length;
}

static long connect_to(int type, const char *name, int abstract)
{
	int fd = socket(AF_UNIX, type, 0);
	if (fd < 0)
		return -1;
	return connect(fd, (struct sockaddr *)&a, to(name, abstract));
}

static long abstract(void) { return connect_to(SOCK_STREAM, args[0], 1); }
static long stream(void) { return connect_to(SOCK_STREAM, args[1], 0); }
static long datagram(void) { return connect_to(SOCK_DGRAM, args[2], 0); }

static long unconnected(int use_msg)
{
	struct iovec part = {"x", 1};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	socklen_t length = to(args[2], 0);
	struct msghdr m = {.msg_name = &a, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1};
	if (fd < 0)
		return -1;
	if (use_msg)
		return sendmsg(fd, &m, 0);
	return sendto(fd, "x", 1, 0, (struct sockaddr *)&a, length);
}

static long by_sendto(void) { return unconnected(0); }
static long by_sendmsg(void) { return unconnected(1); }

// A socketpair is a unix socket too; one of datagrams can be sent elsewhere unless it's connected for good.
static long by_pair(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return -1;
	return sendto(pair[0], "x", 1, 0, (struct sockaddr *)&a, to(args[2], 0));
}

static long by_pair_connect(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return -1;
	return connect(pair[0], (struct sockaddr *)&a, to(args[2], 0));
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("abstract", abstract);
	attempt("stream", stream);
	attempt("datagram", datagram);
	attempt("sendto", by_sendto);
	attempt("sendmsg", by_sendmsg);
	attempt("pair-sendto", by_pair);
	attempt("pair-connect", by_pair_connect);
}
