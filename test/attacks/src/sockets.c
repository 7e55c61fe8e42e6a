// Tries: to get sockets that no rule of a policy can describe: raw, packet, ICMP, netlink beyond routing, vsock, kernel
// crypto, key, bluetooth.
// Must get: EACCES, EPERM or EAFNOSUPPORT.
// Event: syscall socket, reason syscall_denied.
#include "attack.h"
#include <netinet/in.h>

static long raw4(void) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }
static long raw6(void) { return socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6); }
static long ping(void) { return socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP); }
static long packet(void) { return socket(AF_PACKET, SOCK_RAW, 0); }
static long audit(void) { return socket(AF_NETLINK, SOCK_RAW, 9); }
static long uevent(void) { return socket(AF_NETLINK, SOCK_RAW, 15); }
static long netfilter(void) { return socket(AF_NETLINK, SOCK_RAW, 12); }
static long vsock(void) { return socket(AF_VSOCK, SOCK_STREAM, 0); }
static long alg(void) { return socket(AF_ALG, SOCK_SEQPACKET, 0); }
static long key(void) { return socket(AF_KEY, SOCK_RAW, 2); }
static long xdp(void) { return socket(AF_XDP, SOCK_RAW, 0); }

int main(int argc, char **argv)
{
	attempt("raw4", raw4);
	attempt("raw6", raw6);
	attempt("ping", ping);
	attempt("packet", packet);
	attempt("netlink-audit", audit);
	attempt("netlink-uevent", uevent);
	attempt("netlink-netfilter", netfilter);
	attempt("vsock", vsock);
	attempt("alg", alg);
	attempt("key", key);
	attempt("xdp", xdp);
}
