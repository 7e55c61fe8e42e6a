/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second check: of packets, in case the first check was bypassed. It checks a connection's first packet, with or without data,
 * and every datagram. The decision about a connection's first packet applies to the rest, as long as no packet can be routed
 * elsewhere: so source routes are denied in each one. They (IP_OPTIONS, IPV6_RTHDR) need no capability, or didn't in older kernels,
 * even in an established connection.
 */

#define TCP_SYN 0x02
#define TCP_ACK 0x10

struct packet {
	struct endpoint from, to;
	u32 protocol;
	bool begins; /* a connection's first packet */
};

struct header4 {
	u8 version, tos;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 check;
	u32 from, to;
};

struct header6 {
	u32 version;
	u16 length;
	u8 next, hops;
	u32 from[4], to[4];
};

struct transport {
	u16 from, to;
	u32 others[2];
	u8 length, flags;
};
#define UDP_HEADER 8

/* The hop-by-hop option that the kernel adds to a packet of more than 64 KiB, which the device segments (BIG TCP, ip6_xmit). */
struct jumbo {
	u8 next, length, option, option_length;
	u16 bytes[2];
};
#define MAX_LENGTH 0xffff

/* part is a pointer to a part of a packet; NULL: the packet is shorter, or that part isn't in the linear area, and is denied for it.
 * The kernel writes the headers of outgoing packets there, and pulls those of incoming ones (pskb_may_pull). */
static __always_inline void *part(struct __sk_buff *skb, u32 at, u32 bytes)
{
	void *from = (void *)(long)skb->data + at;

	return from + bytes <= (void *)(long)skb->data_end ? from : NULL;
}

/* read_header4 and read_header6 return the header's end; 0: it has options, extension headers or fragments, or is invalid. */
static __always_inline u32 read_header4(struct __sk_buff *skb, struct packet *p)
{
	struct header4 *h = part(skb, 0, sizeof(*h));

	if (!h)
		return 0;
	p->protocol = h->protocol;
	p->from = ipv4(h->from, 0);
	p->to = ipv4(h->to, 0);
	return h->version == 0x45 && !(h->fragment & bpf_htons(0x3fff)) ? sizeof(*h) : 0;
}

/* read_jumbo returns the offset of TCP in a packet whose only extension is the jumbo option. */
static __always_inline u32 read_jumbo(struct __sk_buff *skb, struct packet *p)
{
	struct jumbo *j = part(skb, sizeof(struct header6), sizeof(*j));

	if (!j || j->next != IPPROTO_TCP || j->length || j->option != 0xc2 || j->option_length != 4)
		return 0;
	u32 bytes = bpf_ntohs(j->bytes[0]) << 16 | bpf_ntohs(j->bytes[1]);
	if (bytes <= MAX_LENGTH || bytes + sizeof(struct header6) != skb->len)
		return 0;
	p->protocol = IPPROTO_TCP;
	return sizeof(struct header6) + sizeof(*j);
}

static __always_inline u32 read_header6(struct __sk_buff *skb, struct packet *p)
{
	struct header6 *h = part(skb, 0, sizeof(*h));

	if (!h)
		return 0;
	p->protocol = h->next;
	p->from = ipv6(h->from, 0);
	p->to = ipv6(h->to, 0);
	if (!h->next && !h->length)
		return read_jumbo(skb, p);
	return h->next == IPPROTO_TCP || h->next == IPPROTO_UDP || h->next == IPPROTO_ICMPV6 ? sizeof(*h) : 0;
}

static __always_inline bool read_packet(struct __sk_buff *skb, struct packet *p)
{
	u32 at = skb->protocol == bpf_htons(0x0800) ? read_header4(skb, p) : read_header6(skb, p);

	if (!at)
		return false;
	if (p->protocol != IPPROTO_TCP && p->protocol != IPPROTO_UDP)
		return true;
	struct transport *t = part(skb, at, p->protocol == IPPROTO_TCP ? sizeof(*t) : UDP_HEADER);
	if (!t)
		return false;
	p->from.port = t->from;
	p->to.port = t->to;
	p->begins = p->protocol == IPPROTO_TCP && (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	return true;
}

/* crossing is a packet that the second check decides about. */
struct crossing {
	struct question q; /* about the far end */
	struct endpoint near;
	u32 protocol, device; /* the socket's */
	bool redirected; /* the socket has been redirected to egress */
	bool own; /* one of the session's own servers listens at the far end */
	struct task task; /* the sender, if known */
};

static __always_inline struct crossing crossing(struct __sk_buff *skb, u32 protocol, struct endpoint *near, struct endpoint *far)
{
	struct crossing c = {
		.q = { .kind = protocol == IPPROTO_UDP ? KIND_UDP : 0, .to = *far, .by = NO_VERDICT }, .near = *near, .protocol = protocol,
	};
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	c.device = sk ? sk->bound_dev_if : 0;
	struct peer *p = sk ? bpf_sk_storage_get(&peers, sk, NULL, 0) : NULL;
	if (p) {
		c.q.permitted = permitted(p);
		c.redirected = p->original.to.port != 0;
		c.task = p->original.by;
	}
	if (c.redirected) { /* at egress, only packets of redirected sockets are accepted */
		struct session *s = session();
		if (s && is_egress(s, c.q.kind, far))
			c.redirected = waits(skb, c.q.kind, is_ipv4(far), far->port);
	}
	return c;
}

/* reaches reports whether the first check permits this socket to reach the far end, or has redirected it to egress, which listens there. */
static __always_inline bool reaches(struct session *s, struct crossing *c)
{
	if (is_egress(s, c->q.kind, &c->q.to))
		return c->redirected;
	u32 w = way(&c->q);
	return w == WAY_DIRECT || w == WAY_NAMED || (c->own && c->q.by.rule < 0);
}

/* leads_out reports whether a packet to a loopback address leaves the machine, because the socket is bound to a device. */
static __always_inline bool leads_out(struct __sk_buff *skb, const struct endpoint *to)
{
	bool self = is_ipv4(to) ? (to->addr[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000) : is_loopback6(to);

	return self && skb->ifindex != LOOPBACK_IFINDEX;
}

/* stray denies a packet that can't be decided about. It's a separate function for its callers' stack size. */
static __noinline int stray(u32 op, u32 why, const struct packet *p)
{
	struct denial r = { .op = op, .why = why, .protocol = p->protocol, .by = NO_VERDICT, .at = p->to };

	deny(&r);
	return 0;
}

static __always_inline int deny_packet(u32 op, u32 why, const struct crossing *c, const struct endpoint *at, struct verdict by)
{
	struct denial r = { .op = op, .why = why, .protocol = c->protocol, .by = by, .at = *at, .task = c->task };

	deny(&r);
	return 0;
}

/* departs and arrives return the decisions for their hooks. */

__noinline u32 departs(struct crossing *c)
{
	struct session *s = session();

	if (!c || !s)
		return 0;
	if (c->protocol != IPPROTO_TCP && c->protocol != IPPROTO_UDP) {
		u32 why = WHY_SOCKET;
		if (s->free && (c->protocol == IPPROTO_ICMP || c->protocol == IPPROTO_ICMPV6)) {
			c->q.kind = KIND_UDP; /* ICMP has no ports: it's denied to a host that is denied on every port */
			if (decide(&c->q) == DIRECT)
				return 1;
			why = WHY_POLICY;
		}
		return deny_packet(OP_PACKET, why, c, &c->q.to, c->q.by);
	}
	u32 why = is_egress(s, c->q.kind, &c->q.to) ? WHY_EGRESS : WHY_POLICY;
	if (reaches(s, c)) {
		if (!wrong_device(s, c->device, &c->q.to))
			return 1;
		why = WHY_DEVICE;
		c->q.by = NO_VERDICT;
	}
	return deny_packet(OP_PACKET, why, c, &c->q.to, c->q.by);
}

__noinline u32 arrives(struct crossing *c)
{
	struct session *s = session();

	if (!c || !s)
		return 0;
	if (c->protocol != IPPROTO_TCP && c->protocol != IPPROTO_UDP)
		return s->free != 0;
	struct question here = { .kind = c->q.kind | KIND_LISTEN, .to = c->near };
	if (decide(&here) == DIRECT || (c->q.kind && reaches(s, c)))
		return 1;
	return deny_packet(OP_ACCEPT, WHY_POLICY, c, &c->near, here.by);
}

/* answer converts the result of a global function, which the verifier knows nothing about, to 0 or 1. */
static __always_inline int answer(u32 yes)
{
	barrier_var(yes);
	return yes & 1;
}

/* record_original records for egress the original destination and the task, before a connection's first packet or a datagram leaves. If
 * that fails, egress finds no record and closes the connection. */
static __always_inline void record_original(struct __sk_buff *skb, const struct packet *p, u32 kind)
{
	struct session *s = session();
	struct bpf_sock *sk = skb->sk;

	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	struct peer *peer = sk ? bpf_sk_storage_get(&peers, sk, NULL, 0) : NULL;
	if (!s || !peer || !is_egress(s, kind, &p->to))
		return;
	struct tuple t = { .client_port = p->from.port, .listener_port = p->to.port, .kind = kind };
	__builtin_memcpy(t.client, p->from.addr, sizeof(t.client));
	__builtin_memcpy(t.listener, p->to.addr, sizeof(t.listener));
	if (kind & KIND_UDP) {
		peer->original.socket = bpf_get_socket_cookie(skb);
		__sync_fetch_and_add(&peer->original.sent, 1);
	}
	bpf_map_update_elem(&originals, &t, &peer->original, BPF_ANY);
}

/* ip_finish_output, ip6_finish_output: complete packets of sockets, raw ones, too */
SEC("cgroup_skb/egress")
int net_egress(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!read_packet(skb, &p))
		return stray(OP_PACKET, WHY_ROUTE, &p);
	if (leads_out(skb, &p.to))
		return stray(OP_PACKET, WHY_DEVICE, &p);
	if (p.protocol == IPPROTO_TCP && !p.begins)
		return 1;
	u32 kind = p.protocol == IPPROTO_UDP ? KIND_UDP : 0;
	struct bpf_sock *sk = skb->sk;
	if ((kind || p.protocol == IPPROTO_TCP) && sk && freely(session(), kind, sk->bound_dev_if, &p.to))
		return 1;
	struct crossing c = crossing(skb, p.protocol, &p.from, &p.to);
	struct session *s = session();
	if (s && s->own && p.begins && is_loopback(&p.to))
		c.own = server(skb, &p.from, &p.to) == SERVER_OWN;
	if (!answer(departs(&c)))
		return 0;
	if (c.redirected)
		record_original(skb, &p, c.q.kind);
	return 1;
}

/* sk_filter_trim_cap: packets that a socket is about to receive. A host that may be reached may answer from the same address. */
SEC("cgroup_skb/ingress")
int net_ingress(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!read_packet(skb, &p))
		return stray(OP_ACCEPT, WHY_ROUTE, &p);
	if (p.protocol == IPPROTO_TCP && !p.begins)
		return 1;
	struct crossing c = crossing(skb, p.protocol, &p.to, &p.from);
	return answer(arrives(&c));
}
