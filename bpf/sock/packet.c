/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves and what comes in: the second check, for whatever finds a way around the first. It looks at the packets
 * themselves: a connection's first one, with or without data, and every datagram. What goes on in a connection was decided
 * when it began, as long as nothing in it can lead it elsewhere: a source route (IP_OPTIONS, IPV6_RTHDR) needs no
 * capability, or didn't always, not even in the midst of a connection.
 */

#define TCP_SYN 0x02
#define TCP_ACK 0x10

struct packet {
	struct endpoint from, to;
	u32 protocol;
	bool begins; /* a connection */
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

/* What the kernel puts before TCP where one packet is longer than its header can say, for devices that cut it up (BIG TCP, ip6_xmit). */
struct jumbo {
	u8 next, length, option, option_length;
	u16 bytes[2];
};
#define MAX_LENGTH 0xffff

/* part is where a packet has so many bytes; NULL: it hasn't, or not where they can be read at once, and is denied for it. The
 * kernel puts the headers of what a socket sends there, and has asked for those that a socket gets (pskb_may_pull). */
static __always_inline void *part(struct __sk_buff *skb, u32 at, u32 bytes)
{
	void *from = (void *)(long)skb->data + at;

	return from + bytes <= (void *)(long)skb->data_end ? from : NULL;
}

/* read_header4 and read_header6 return where the header ends; 0: it's not one that can be decided on, or not the only one. */
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

/* read_jumbo returns where TCP begins in a packet that is as long as its only option says. */
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

/* crossing is a packet that may cross the second check or not. */
struct crossing {
	struct question q; /* about the far end */
	struct endpoint near;
	u32 protocol, device; /* the socket's */
	bool redirected; /* the socket has been redirected to egress */
	bool own; /* one of the session's own servers waits at the far end */
	struct task task; /* whose it is, where that's known */
};

static __always_inline struct crossing crossing(struct __sk_buff *skb, u32 protocol, struct endpoint *near, struct endpoint *far)
{
	struct crossing c = {
		.q = { .kind = protocol == IPPROTO_UDP ? KIND_UDP : 0, .to = *far, .by = NOBODY }, .near = *near, .protocol = protocol,
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
	if (c.redirected) { /* there, what was redirected is nobody else's */
		struct session *s = session();
		if (s && is_egress(s, c.q.kind, far))
			c.redirected = waits(skb, c.q.kind, is_ipv4(far), far->port);
	}
	return c;
}

/* reaches says whether the first check lets this socket reach the far end, or has redirected it to egress there, which waits for it. */
static __always_inline bool reaches(struct session *s, struct crossing *c)
{
	if (is_egress(s, c->q.kind, &c->q.to))
		return c->redirected;
	u32 w = way(&c->q);
	return w == WAY_DIRECT || w == WAY_NAMED || (c->own && c->q.by.rule < 0);
}

/* leads_out says whether a packet for this machine itself leaves it: by a socket's device. */
static __always_inline bool leads_out(struct __sk_buff *skb, const struct endpoint *to)
{
	bool self = is_ipv4(to) ? (to->addr[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000) : is_loopback6(to);

	return self && skb->ifindex != LOOPBACK_IFINDEX;
}

/* stray denies what can't be decided on. It's a function of its own for its callers' stack. */
static __noinline int stray(u32 op, u32 why, const struct packet *p)
{
	struct denial r = { .op = op, .why = why, .protocol = p->protocol, .by = NOBODY, .at = p->to };

	deny(&r);
	return 0;
}

static __always_inline int deny_packet(u32 op, u32 why, const struct crossing *c, const struct endpoint *at, struct verdict by)
{
	struct denial r = { .op = op, .why = why, .protocol = c->protocol, .by = by, .at = *at, .task = c->task };

	deny(&r);
	return 0;
}

/* departs and arrives decide, and answer for their hooks. */

__noinline u32 departs(struct crossing *c)
{
	struct session *s = session();

	if (!c || !s)
		return 0;
	if (c->protocol != IPPROTO_TCP && c->protocol != IPPROTO_UDP) {
		u32 why = WHY_SOCKET;
		if (s->free && (c->protocol == IPPROTO_ICMP || c->protocol == IPPROTO_ICMPV6)) {
			c->q.kind = KIND_UDP; /* it has no port: who is denied on every one hears nothing by it either */
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
		c->q.by = NOBODY;
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

/* answer is a yes or no that the verifier can see, which knows nothing of what a global function returns. */
static __always_inline int answer(u32 yes)
{
	barrier_var(yes);
	return yes & 1;
}

/* record_original notes down for egress, before the first packet of a connection leaves, or a datagram, where it was going and by whom. Where that
 * can't be noted down egress finds nothing, and closes the connection. */
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

/* ip_finish_output, ip6_finish_output: whole packets of sockets, raw ones too */
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

/* sk_filter_trim_cap: what a socket is about to get. Who may be reached may answer, from where it was reached. */
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
