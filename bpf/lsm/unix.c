/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets: which ones a session may make, and the peers of unix sockets. A unix socket with a path is decided about by its path, like
 * a file; one without (abstract or unnamed) may be used within the session that made it only. sock/ decides about addresses and
 * ports.
 */

#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
#define NETLINK_ROUTE 0
#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ICMPV6 58
#define IPPROTO_MPTCP 262

/* TOOLGUARDD, in place of a session's id, marks toolguardd's own socket. */
#define TOOLGUARDD 0

struct maker {
	u64 session;
	u32 slot, pad;
};

/*
 * makers has, for each socket that a session made, the session; accepted connections inherit it. A connection that toolguardd
 * accepts has its client's session.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct maker);
} makers SEC(".maps");

/* made_by reports whether the session made a socket. */
static __always_inline bool made_by(struct label *l, struct sock *sk)
{
	struct maker *m = sk ? bpf_sk_storage_get(&makers, sk, NULL, 0) : NULL;

	return m && m->session == l->id;
}

/* made records that the session made a socket, unless it has a maker already: 0, or the error for the hook. */
static __always_inline int made(struct label *l, struct sock *sk)
{
	struct maker m = { .session = l->id, .slot = l->slot };

	return bpf_sk_storage_get(&makers, sk, &m, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

static __always_inline u32 flags_of(struct label *l)
{
	struct session *s = session_of(l);

	return s ? s->flags : 0;
}

/* known_socket reports whether a session with these flags may make such a socket. */
static __always_inline bool known_socket(u32 flags, int family, int type, int protocol)
{
	switch (family) {
	case AF_UNIX:
		return true;
	case AF_NETLINK:
		return protocol == NETLINK_ROUTE;
	case AF_INET:
	case AF_INET6:
		break;
	default:
		return false;
	}
	if (!(type == SOCK_STREAM && flags & SESSION_STREAM) && !(type == SOCK_DGRAM && flags & SESSION_DATAGRAM))
		return false;
	switch (protocol) {
	case 0:
	case IPPROTO_TCP:
	case IPPROTO_UDP:
		return true;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_MPTCP:
		return flags & SESSION_NET_FREE;
	}
	return false;
}

/* security_socket_create: __sock_create, for socket and socketpair. The kernel makes some for itself. */
SEC("lsm/socket_create")
int BPF_PROG(toolguard_socket_create, int family, int type, int protocol, int kern)
{
	struct label *l = kern ? NULL : confined();

	if (!l)
		return kern ? 0 : unconfined(-EACCES);
	if (known_socket(flags_of(l), family, type, protocol))
		return 0;
	struct denial d = {
		.op = OP_SOCKET,
		.why = family == AF_INET || family == AF_INET6 ? WHY_NET : WHY_ALWAYS,
		.detail = SOCKET_DETAIL(family, type, protocol),
		.error = EACCES,
	};
	deny(l, &d);
	return -EACCES;
}

/* security_socket_post_create: __sock_create, when the socket exists. */
SEC("lsm/socket_post_create")
int BPF_PROG(toolguard_socket_post_create, struct socket *sock, int family, int type, int protocol, int kern)
{
	struct label *l = kern ? NULL : confined();
	struct sock *sk = sock->sk;

	if (!l)
		return kern ? 0 : unconfined(-EACCES);
	return sk ? made(l, sk) : 0;
}

/* security_socket_bind: an unbound unix socket that the session received becomes the session's when it binds it. */
SEC("lsm/socket_bind")
int BPF_PROG(toolguard_socket_bind, struct socket *sock)
{
	struct label *l = confined();
	struct sock *sk = sock->sk;

	if (!l)
		return unconfined(-EACCES);
	if (!sk || sk->__sk_common.skc_family != AF_UNIX || LOAD(struct unix_sock, (u64)sk, addr))
		return 0;
	return made(l, sk);
}

#define SOL_IP 0
#define SOL_IPV6 41

/* spoofs reports whether an option has a socket join a group, which the kernel announces in the local network, or send from an address
 * that isn't the machine's. The seccomp filter denies the same options (internal/seccomp, SocketOptions). */
static __always_inline bool spoofs(int level, int option)
{
	switch (level) {
	case SOL_IP:
		switch (option) {
		case 15: /* IP_FREEBIND */
		case 19: /* IP_TRANSPARENT */
		case 35: /* IP_ADD_MEMBERSHIP */
		case 39: /* IP_ADD_SOURCE_MEMBERSHIP */
		case 42: /* MCAST_JOIN_GROUP */
		case 46: /* MCAST_JOIN_SOURCE_GROUP */
			return true;
		}
		return false;
	case SOL_IPV6:
		switch (option) {
		case 20: /* IPV6_JOIN_GROUP */
		case 27: /* IPV6_JOIN_ANYCAST */
		case 42: /* MCAST_JOIN_GROUP */
		case 46: /* MCAST_JOIN_SOURCE_GROUP */
		case 75: /* IPV6_TRANSPARENT */
		case 78: /* IPV6_FREEBIND */
			return true;
		}
	}
	return false;
}

/* security_socket_setsockopt: __sys_setsockopt; since Linux 6.7 do_sock_setsockopt, also for io_uring (SOCKET_URING_OP_SETSOCKOPT),
 * which no seccomp filter sees. */
SEC("lsm/socket_setsockopt")
int BPF_PROG(toolguard_socket_setsockopt, struct socket *sock, int level, int option)
{
	struct label *l = confined();

	if (!spoofs(level, option))
		return 0;
	if (!l)
		return unconfined(-EACCES);
	if (flags_of(l) & SESSION_NET_FREE)
		return 0;
	struct denial d = { .op = OP_OPTION, .why = WHY_NET, .detail = OPTION_DETAIL(level, option), .error = EACCES };
	deny(l, &d);
	return -EACCES;
}

/* deny_other_maker denies a socket without a path that the session didn't make. */
static __always_inline int deny_other_maker(struct label *l, u32 op)
{
	if (flags_of(l) & SESSION_NET_FREE)
		return 0;
	struct denial d = { .op = op, .why = WHY_OUTSIDE, .error = EACCES };
	deny(l, &d);
	return -EACCES;
}

/* receive_socket decides about a socket received from another task (file.c). */
static __always_inline int receive_socket(struct label *l, struct sock *sk)
{
	if (!sk || sk->__sk_common.skc_family == AF_UNIX || made_by(l, sk))
		return 0;
	return deny_other_maker(l, OP_RECEIVE);
}

/*
 * A socket's path is on a mount of the process that bound it, often in another mount namespace. The decision needs the path that
 * connect or sendto has just looked up, which the hooks below don't get. It's the last result of kern_path, if that is the same file.
 */
SEC("fexit/kern_path")
int BPF_PROG(toolguard_kern_path, const char *name, unsigned int flags, struct path *path, int error)
{
	struct label *l = error ? NULL : labelled();

	if (l) {
		l->looked_up.mnt = (u64)path->mnt;
		l->looked_up.dentry = (u64)path->dentry;
	}
	return 0;
}

/* peer decides about the other end of a unix socket. */
static __always_inline int peer(struct label *l, struct sock *other)
{
	u64 at = (u64)other, dentry = (u64)LOAD(struct unix_sock, at, path.dentry);

	if (!dentry)
		return made_by(l, other) ? 0 : deny_other_maker(l, OP_UNIX);
	struct inode *inode = LOAD(struct dentry, dentry, d_inode);
	if (LOAD(struct dentry, l->looked_up.dentry, d_inode) == inode)
		l->target[0] = l->looked_up;
	else
		set_target(l, 0, LOAD(struct unix_sock, at, path.mnt), (struct dentry *)dentry);
	return check(l, OP_UNIX, CAP_UPDATE) ? -EACCES : 0;
}

/*
 * is_private reports whether a socket may be reached from within its session only: one without a path, whose abstract name other
 * processes might mistake for a service's. The session may not connect to their sockets either. The peer that the session has
 * connected the socket to may answer. The sockets of an ended session stay private.
 */
static __always_inline bool is_private(struct label *l, struct sock *sk, struct sock *other)
{
	u64 at = (u64)other;

	if (!other || LOAD(struct unix_sock, at, path.dentry))
		return false;
	struct maker *m = bpf_sk_storage_get(&makers, other, NULL, 0);
	if (!m || m->session == TOOLGUARDD || (l && m->session == l->id) || LOAD(struct unix_sock, at, peer) == sk)
		return false;
	struct session *s = session_at(m->slot, m->session);
	return !s || !(s->flags & SESSION_NET_FREE);
}

/* check_peer decides for both hooks below: for the current task, and reports a denial; then for the other end's session, for which the
 * caller gets the error of an absent peer. */
static __always_inline int check_peer(struct label *l, struct sock *sk, struct sock *other)
{
	if (l ? peer(l, other) : unconfined(-EACCES))
		return -EACCES;
	return is_private(l, sk, other) ? -ECONNREFUSED : 0;
}

/*
 * security_unix_stream_connect: unix_stream_connect, for streams and sequenced packets. Every policy permits connecting to
 * toolguardd, which only starts sessions nested in the client's.
 */
SEC("lsm/unix_stream_connect")
int BPF_PROG(toolguard_unix_stream_connect, struct sock *sk, struct sock *other, struct sock *accepted)
{
	struct label *l = confined();
	struct maker *m = l ? bpf_sk_storage_get(&makers, other, NULL, 0) : NULL;

	return m && m->session == TOOLGUARDD ? made(l, accepted) : check_peer(l, sk, other);
}

/* security_unix_may_send: unix_dgram_connect, and unix_dgram_sendmsg for each datagram. Between connected sockets it's already decided:
 * by this hook at connect, or by socketpair. */
SEC("lsm/unix_may_send")
int BPF_PROG(toolguard_unix_may_send, struct socket *sock, struct socket *other)
{
	struct label *l = confined();
	struct sock *sk = sock->sk, *to = other->sk;

	return LOAD(struct unix_sock, (u64)sk, peer) == to ? 0 : check_peer(l, sk, to);
}
