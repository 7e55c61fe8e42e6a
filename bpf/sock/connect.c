/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first check: of a task's calls on its sockets. The hooks run for the cgroup in which the socket was made, whichever process
 * uses it. They see every address: of connect, sendto, sendmsg and sendmmsg, also from io_uring, and of a connection that begins
 * with data (MSG_FASTOPEN, TCP_FASTOPEN_CONNECT).
 */

#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOL_IP 0
#define SOL_SOCKET 1
#define SOL_IPV6 41

static __always_inline u32 kind_of(struct bpf_sock_addr *ctx)
{
	return ctx->protocol == IPPROTO_UDP ? KIND_UDP : 0;
}

/* known reports whether these programs can decide about such a socket. All others are denied. */
static __always_inline bool known(struct session *s, u32 type, u32 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return type == SOCK_STREAM;
	case IPPROTO_UDP:
		return type == SOCK_DGRAM;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return type == SOCK_DGRAM && s->free;
	case IPPROTO_MPTCP:
		return type == SOCK_STREAM && s->free;
	}
	return false;
}

/* inet_create and inet6_create: TCP, UDP, ICMP, raw, SCTP, MPTCP, UDP-Lite, … */
SEC("cgroup/sock_create")
int net_create(struct bpf_sock *ctx)
{
	struct session *s = session();

	if (s && known(s, ctx->type, ctx->protocol)) {
		__sync_fetch_and_add(&s->sockets, 1);
		return 1;
	}
	struct denial r = { .op = OP_SOCKET, .why = WHY_SOCKET, .protocol = ctx->protocol, .kind = ctx->type, .by = NO_VERDICT };
	return deny_task(&r);
}

/* binds reports whether an option binds a socket to a device: SO_BINDTODEVICE, SO_BINDTOIFINDEX, IP_UNICAST_IF, IPV6_PKTINFO,
 * IPV6_UNICAST_IF. */
static __always_inline bool binds(s32 level, s32 option)
{
	switch (level) {
	case SOL_SOCKET:
		return option == 25 || option == 62;
	case SOL_IP:
		return option == 50;
	case SOL_IPV6:
		return option == 50 || option == 76;
	}
	return false;
}

/* An option changes the device of an existing connection, too, which no other hook sees. */
SEC("cgroup/setsockopt")
int net_option(struct bpf_sockopt *ctx)
{
	struct session *s = session();

	if (s && (s->free || !binds(ctx->level, ctx->optname))) {
		ctx->optlen = 0; /* unchanged: of a long value the program sees only a part */
		return 1;
	}
	struct denial r = { .op = OP_OPTION, .why = WHY_DEVICE, .protocol = ctx->level, .kind = ctx->optname, .by = NO_VERDICT };
	return deny_task(&r);
}

/* note records a socket's original destination and the task that sends it there; false: no memory for a record that is needed. */
static __always_inline bool note(struct bpf_sock_addr *ctx, struct peer *p, const struct endpoint *to, u32 op, u32 w)
{
	bool sends = op == OP_CONNECT && ctx->protocol == IPPROTO_UDP;

	if (w == WAY_DIRECT && !sends)
		return true;
	if (!p)
		p = bpf_sk_storage_get(&peers, ctx->sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!p)
		return w == WAY_DIRECT;
	if (sends || w == WAY_EGRESS)
		current_task(&p->original.by);
	if (op == OP_CONNECT)
		p->own = w == WAY_OWN;
	if (w == WAY_NAMED)
		set_permitted(p, to);
	else if (w == WAY_EGRESS)
		p->original.to = *to;
	return true;
}

/* move is a request to connect or send. */
struct move {
	struct question q;
	u32 op, protocol, type, device;
	bool redirected; /* the socket has been redirected to egress before */
	bool own; /* one of the session's own servers waits there */
	u32 port; /* egress's, for WAY_EGRESS */
};

/* decide_move decides how a destination may be reached. */
__noinline u32 decide_move(struct move *m)
{
	struct session *s = session();
	u32 why = WHY_POLICY;

	if (!m || !s) {
		bpf_set_retval(-EACCES);
		return WAY_DENIED;
	}
	if (m->protocol != IPPROTO_TCP && m->protocol != IPPROTO_UDP && s->free)
		return WAY_DIRECT; /* the socket was allowed, and rules are about TCP and UDP only */
	u32 w = way(&m->q);
	if (is_egress(s, m->q.kind, &m->q.to)) {
		/* Each datagram of a socket that is connected to an IPv4-mapped address has that address (udpv6_sendmsg). */
		if (m->op == OP_SEND && m->redirected)
			return WAY_DIRECT;
		why = WHY_EGRESS;
	} else if (m->own && w != WAY_DIRECT && m->q.by.rule < 0) {
		return WAY_OWN; /* a denial by a rule about addresses prevails */
	} else if (w == WAY_EGRESS) {
		m->port = egress_port(s, m->q.kind, is_ipv4(&m->q.to));
		if (!m->port)
			why = WHY_EGRESS;
		else if (m->device && m->device != LOOPBACK_IFINDEX)
			why = WHY_DEVICE;
		else
			return w;
	} else if (w != WAY_DENIED) {
		if (!wrong_device(s, m->device, &m->q.to))
			return w;
		why = WHY_DEVICE;
		m->q.by = NO_VERDICT;
	} else if (m->op == OP_CONNECT && m->protocol == IPPROTO_UDP) {
		/* A connected UDP socket sends nothing yet, and the second check denies its datagrams. Resolvers connect so to each of
		 * a name's addresses, to learn the source address (RFC 6724). */
		return WAY_DIRECT;
	}
	struct denial r = { .op = m->op, .why = why, .protocol = m->protocol, .kind = m->type, .by = m->q.by, .at = m->q.to };
	deny_task(&r);
	return WAY_DENIED;
}

#define THERE (1 << 16) /* no valid port */

/* latest caches a processor's last destination that may be reached directly. The next decision there is often the same: a connection's
 * first packet follows its connect. The entry is valid for one image of one session. turn is odd while it's written, since a reader or
 * writer may be interrupted by another one on the same processor. */
struct latest {
	u64 turn, session, images;
	u32 kind;
	struct endpoint to;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct latest);
} latests SEC(".maps");

static __always_inline struct latest *latest(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&latests, &key);
}

static __always_inline void remember(struct session *s, u64 images, const struct question *q)
{
	struct latest *l = latest();
	u64 turn = l ? *(volatile u64 *)&l->turn : 1;

	if ((turn & 1) || __sync_val_compare_and_swap(&l->turn, turn, turn + 1) != turn)
		return;
	l->session = s->id;
	l->images = images;
	l->kind = q->kind;
	l->to = q->to;
	barrier();
	*(volatile u64 *)&l->turn = turn + 2;
}

static __always_inline bool remembered(struct session *s, u32 kind, const struct endpoint *to)
{
	struct latest *l = latest();
	u64 turn = l ? *(volatile u64 *)&l->turn : 1;

	barrier();
	if ((turn & 1) || l->session != s->id || l->images != s->images || l->kind != kind || !same(&l->to, to))
		return false;
	barrier();
	return *(volatile u64 *)&l->turn == turn;
}

/* freely reports whether a destination is in the cache, and so may be reached directly; false: decide. */
static __always_inline bool freely(struct session *s, u32 kind, u32 device, const struct endpoint *to)
{
	return s && !device && to->port != DNS && !is_egress(s, kind, to) && remembered(s, kind, to);
}

/* go is decide_move for a hook: 0 (denied), THERE, or egress's port. */
static __always_inline u32 go(struct bpf_sock_addr *ctx, struct endpoint *to, u32 op)
{
	struct move m = {
		.q = { .kind = kind_of(ctx), .to = *to, .by = NO_VERDICT }, .op = op, .protocol = ctx->protocol, .type = ctx->type,
		.device = ctx->sk->bound_dev_if,
	};
	struct session *s = session();
	struct peer *p = bpf_sk_storage_get(&peers, ctx->sk, NULL, 0);

	if (p && op == OP_CONNECT)
		p->waits = p->own = 0;
	if ((op == OP_SEND || ctx->protocol != IPPROTO_UDP) && freely(s, m.q.kind, m.device, to))
		return THERE;
	u64 images = s ? *(volatile u64 *)&s->images : 0; /* read before the image, so that the cache entry is never newer than the decision */
	if (p && (m.q.kind & KIND_UDP)) { /* a second connect of a TCP socket begins a new connection */
		m.q.permitted = permitted(p);
		m.redirected = p->original.to.port != 0;
	}
	if (s && s->own && op == OP_CONNECT && ctx->protocol == IPPROTO_TCP && is_loopback(to)) {
		struct endpoint nowhere = {};
		m.own = server(ctx, &nowhere, to) == SERVER_OWN;
	}
	u32 w = decide_move(&m);
	if (w == WAY_DENIED)
		return 0;
	if (w == WAY_EGRESS && !waits(ctx, m.q.kind, is_ipv4(to), m.port)) {
		struct denial r = { .op = op, .why = WHY_EGRESS, .protocol = m.protocol, .kind = m.type, .by = NO_VERDICT, .at = *to };
		return deny_task(&r);
	}
	if (!note(ctx, p, to, op, w)) {
		struct denial r = { .op = op, .why = WHY_MEMORY, .protocol = m.protocol, .kind = m.type, .by = NO_VERDICT, .at = *to };
		return deny_task(&r);
	}
	if (s && m.q.by.action == DIRECT)
		remember(s, images, &m.q);
	return w == WAY_EGRESS ? m.port : THERE;
}

static __always_inline int go4(struct bpf_sock_addr *ctx, u32 op)
{
	struct endpoint to = ipv4(ctx->user_ip4, ctx->user_port);

	if (normalize(&to))
		ctx->user_ip4 = to.addr[3];
	u32 port = go(ctx, &to, op);
	if (port && port != THERE) {
		ctx->user_ip4 = LOOPBACK4;
		ctx->user_port = port;
	}
	return port > 0;
}

static __always_inline void write6(struct bpf_sock_addr *ctx, const struct endpoint *to)
{
	ctx->user_ip6[0] = to->addr[0];
	ctx->user_ip6[1] = to->addr[1];
	ctx->user_ip6[2] = to->addr[2];
	ctx->user_ip6[3] = to->addr[3];
}

static __always_inline struct endpoint read6(struct bpf_sock_addr *ctx)
{
	u32 addr[4] = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3] };

	return ipv6(addr, ctx->user_port);
}

static __always_inline int go6(struct bpf_sock_addr *ctx, u32 op)
{
	struct endpoint to = read6(ctx);

	if (normalize(&to))
		write6(ctx, &to);
	u32 port = go(ctx, &to, op);
	if (port && port != THERE) {
		struct endpoint egress = { .addr = { 0, 0, 0, bpf_htonl(1) } };
		if (is_ipv4(&to))
			egress = ipv4(LOOPBACK4, 0);
		write6(ctx, &egress);
		ctx->user_port = port;
	}
	return port > 0;
}

/* tcp_v4_pre_connect, udp_pre_connect (also for IPv6 sockets), ping_v4_pre_connect */
SEC("cgroup/connect4")
int net_connect4(struct bpf_sock_addr *ctx) { return go4(ctx, OP_CONNECT); }

/* tcp_v6_pre_connect, udpv6_pre_connect, ping_v6_pre_connect: IPv4-mapped addresses, too */
SEC("cgroup/connect6")
int net_connect6(struct bpf_sock_addr *ctx) { return go6(ctx, OP_CONNECT); }

/* udp_sendmsg, for each datagram with an address: of connected sockets as well, of IPv6 sockets that send to IPv4-mapped ones, and
 * with the family AF_UNSPEC */
SEC("cgroup/sendmsg4")
int net_sendmsg4(struct bpf_sock_addr *ctx) { return go4(ctx, OP_SEND); }

/* udpv6_sendmsg */
SEC("cgroup/sendmsg6")
int net_sendmsg6(struct bpf_sock_addr *ctx) { return go6(ctx, OP_SEND); }

/* getpeername and recvmsg return the original destination in place of egress. */

static __always_inline struct peer *redirected(struct bpf_sock_addr *ctx, const struct endpoint *from)
{
	struct session *s = session();
	struct peer *p = s && is_egress(s, kind_of(ctx), from) ? bpf_sk_storage_get(&peers, ctx->sk, NULL, 0) : NULL;

	return p && p->original.to.port ? p : NULL;
}

static __always_inline int show4(struct bpf_sock_addr *ctx)
{
	struct endpoint from = ipv4(ctx->user_ip4, ctx->user_port);
	struct peer *p = redirected(ctx, &from);

	if (p) {
		ctx->user_ip4 = p->original.to.addr[3];
		ctx->user_port = p->original.to.port;
	}
	return 1;
}

static __always_inline int show6(struct bpf_sock_addr *ctx)
{
	struct endpoint from = read6(ctx);
	struct peer *p = redirected(ctx, &from);

	if (p) {
		write6(ctx, &p->original.to);
		ctx->user_port = p->original.to.port;
	}
	return 1;
}

SEC("cgroup/getpeername4")
int net_peername4(struct bpf_sock_addr *ctx) { return show4(ctx); }

SEC("cgroup/getpeername6")
int net_peername6(struct bpf_sock_addr *ctx) { return show6(ctx); }

/* udp_recvmsg */
SEC("cgroup/recvmsg4")
int net_recvmsg4(struct bpf_sock_addr *ctx) { return show4(ctx); }

/* udpv6_recvmsg, with IPv4-mapped addresses where those are meant */
SEC("cgroup/recvmsg6")
int net_recvmsg6(struct bpf_sock_addr *ctx) { return show6(ctx); }
