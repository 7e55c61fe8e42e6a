// Tries: to reach a listener on this machine that nothing grants (argument 1: TCP port, 2: UDP port) over IPv4, IPv6 and
// IPv4 in IPv6; with TCP fast open, MPTCP, SCTP, UDP connected and not, sendmmsg, AF_UNSPEC; to listen.
// Must get: EACCES or EPERM, at once.
// Event: net connect, or syscall socket, reason host_not_listed or syscall_denied.
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

static struct sockaddr_in v4(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return a;
}

static struct sockaddr_in6 v6(int port, const char *text)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	inet_pton(AF_INET6, text, &a.sin6_addr);
	return a;
}

static int tcp(void) { return atoi(args[0]); }
static int udp(void) { return atoi(args[1]); }

static long connect4(int protocol)
{
	struct sockaddr_in a = v4(tcp());
	int fd = socket(AF_INET, SOCK_STREAM, protocol);
	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, sizeof(a));
}

static long connect6(const char *text)
{
	struct sockaddr_in6 a = v6(tcp(), text);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, sizeof(a));
}

static long tcp4(void) { return connect4(0); }
static long mptcp(void) { return connect4(IPPROTO_MPTCP); }
static long tcp6(void) { return connect6("::1"); }
static long mapped(void) { return connect6("::ffff:127.0.0.1"); }

static long fast_open(void)
{
	struct sockaddr_in a = v4(tcp());
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? -1 : sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&a, sizeof(a));
}

static long udp_sendto(void)
{
	struct sockaddr_in a = v4(udp());
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	return fd < 0 ? -1 : sendto(fd, "x", 1, 0, (struct sockaddr *)&a, sizeof(a));
}

static long udp_connect(void)
{
	struct sockaddr_in a = v4(udp());
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	return send(fd, "x", 1, 0);
}

static long udp_sendmmsg(void)
{
	struct sockaddr_in a = v4(udp());
	struct iovec part = {"x", 1};
	struct mmsghdr m = {.msg_hdr = {.msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = &part, .msg_iovlen = 1}};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	return fd < 0 ? -1 : sendmmsg(fd, &m, 1, 0);
}

// AF_UNSPEC means AF_INET to an IPv4 socket's bind, for the sake of old programs.
static long unspec_bind(void)
{
	struct sockaddr_in a = v4(0);
	a.sin_family = AF_UNSPEC;
	a.sin_addr.s_addr = 0;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&a, sizeof(a));
}

static long listen4(void)
{
	struct sockaddr_in a = v4(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	return listen(fd, 1);
}

static long listen_unbound(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? -1 : listen(fd, 1);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("tcp4", tcp4);
	attempt("tcp6", tcp6);
	attempt("v4-in-v6", mapped);
	attempt("mptcp", mptcp);
	attempt("fast-open", fast_open);
	attempt("udp-sendto", udp_sendto);
	attempt("udp-connect", udp_connect);
	attempt("udp-sendmmsg", udp_sendmmsg);
	attempt("unspec-bind", unspec_bind);
	attempt("listen", listen4);
	attempt("listen-unbound", listen_unbound);
}
