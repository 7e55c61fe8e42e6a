/* SPDX-License-Identifier: Apache-2.0 */
/* From an address to an answer. What isn't in a map, or doesn't fit into one, is denied. */
#ifndef TOOLGUARD_SOCK_DECIDE_H
#define TOOLGUARD_SOCK_DECIDE_H

#include "session.h"

#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ICMPV6 58
#define IPPROTO_MPTCP 262
#define LOOPBACK_IFINDEX 1 /* in every network namespace */
#define MAPPED bpf_htonl(0xffff)
#define LOOPBACK4 bpf_htonl(0x7f000001)
#define DNS bpf_htons(53)

/* peer is what is known about the other end of a socket, for as long as the socket lives. */
struct peer {
	struct original original;  /* where it was going when it was redirected to egress, last (port 0: it wasn't), and by whom, which packets
				    * don't show (packet.c); of datagrams also who has connected it */
	struct endpoint permitted; /* where it was let go to because of a name: it may go on when the name has expired */
	struct bpf_spin_lock whole; /* permitted: threads share the socket, and half of one place with half of another is a third */
	u32 own; /* of TCP: it was let connect there because the server is the session's */
	u32 waits; /* of TCP: it was bound and not connected since, or taken by one that was: who is at the other end has come to it */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE); /* of who waits, to the connections that it takes */
	__type(key, int);
	__type(value, struct peer);
} peers SEC(".maps");

static __always_inline struct endpoint permitted(struct peer *p)
{
	struct endpoint to;

	bpf_spin_lock(&p->whole);
	to = p->permitted;
	bpf_spin_unlock(&p->whole);
	return to;
}

static __always_inline void set_permitted(struct peer *p, const struct endpoint *to)
{
	bpf_spin_lock(&p->whole);
	p->permitted = *to;
	bpf_spin_unlock(&p->whole);
}

static __always_inline struct endpoint ipv4(u32 addr, u32 port)
{
	return (struct endpoint){ .addr = { 0, 0, MAPPED, addr }, .port = port & 0xffff };
}

static __always_inline struct endpoint ipv6(const u32 *addr, u32 port)
{
	return (struct endpoint){ .addr = { addr[0], addr[1], addr[2], addr[3] }, .port = port & 0xffff };
}

/* Comparisons without branches: the verifier follows each of those. */

static __always_inline bool is_ipv4(const struct endpoint *e)
{
	return !(e->addr[0] | e->addr[1] | (e->addr[2] ^ MAPPED));
}

static __always_inline bool is_loopback6(const struct endpoint *e)
{
	return !(e->addr[0] | e->addr[1] | e->addr[2] | (e->addr[3] ^ bpf_htonl(1)));
}

static __always_inline bool same(const struct endpoint *a, const struct endpoint *b)
{
	return !((a->addr[0] ^ b->addr[0]) | (a->addr[1] ^ b->addr[1]) | (a->addr[2] ^ b->addr[2]) | (a->addr[3] ^ b->addr[3]) |
		 (a->port ^ b->port));
}

/* is_on_link says whether an address means nothing without a device: IPv6's of one link, groups too (fe80::/10, ff01::/16, ff02::/16). */
static __always_inline bool is_on_link(const struct endpoint *e)
{
	u32 first = bpf_ntohl(e->addr[0]);

	return (first & 0xffc00000) == 0xfe800000 || first >> 16 == 0xff01 || first >> 16 == 0xff02;
}

/* wrong_device says whether a socket's device takes what is granted elsewhere: who has the address is another one there. What an address is
 * reached by is the machine's choice, by its routes, and no session's. */
static __always_inline bool wrong_device(struct session *s, u32 device, const struct endpoint *to)
{
	return device && device != LOOPBACK_IFINDEX && !s->free && !is_on_link(to);
}

/* normalize names the machine itself where no address does: what is decided is then what is meant (tcp_v4_connect,
 * tcp_v6_connect and their like take such a one for loopback). */
static __always_inline bool normalize(struct endpoint *e)
{
	if (e->addr[3] | e->addr[0] | e->addr[1])
		return false;
	if (e->addr[2] == MAPPED)
		e->addr[3] = LOOPBACK4;
	else if (!e->addr[2])
		e->addr[3] = bpf_htonl(1);
	return e->addr[3];
}

/* question is about an address. */
struct question {
	u32 kind;
	struct endpoint to;
	struct endpoint permitted; /* to the socket, because of a name */
	struct verdict by;	   /* the answer of the policy */
};

/* find is what an image says about a range. It's a function of its own so that the key's form is known to internal/loader/cgroupsock. */
static __noinline struct verdict *find(void *image, struct rule_key *key)
{
	struct verdict *v = bpf_map_lookup_elem(image, key);

	if (!v) {
		key->port = 0;
		v = bpf_map_lookup_elem(image, key);
	}
	return v;
}

/* decide puts what the policy says about an address into by, and returns its action. */
__noinline u32 decide(struct question *q)
{
	struct rule_key key = {};
	u32 first = 0;

	if (!q)
		return DENY;
	q->by = NOBODY;
	void *image = bpf_map_lookup_elem(&images, &first);
	if (!image)
		return DENY;
	key.kind = q->kind;
	key.port = q->to.port;
	if (is_ipv4(&q->to)) {
		key.bits = RULE_BITS + 32;
		key.addr[0] = q->to.addr[3];
	} else {
		key.bits = RULE_BITS + 128;
		key.kind |= KIND_IPV6;
		for (u32 i = 0; i < 4; i++)
			key.addr[i] = q->to.addr[i];
	}
	struct verdict *v = find(image, &key);
	if (v)
		q->by = *v;
	return q->by.action;
}

/* is_named says whether egress has found this place for a name that may be reached directly: lately, or the socket was let there. */
static __always_inline bool is_named(struct question *q)
{
	struct name_key key = { .port = q->to.port, .kind = q->kind };

	for (u32 i = 0; i < 4; i++)
		key.addr[i] = q->to.addr[i];
	struct name *n = bpf_map_lookup_elem(&names, &key);
	return n && (same(&q->permitted, &q->to) || bpf_ktime_get_boot_ns() < n->until);
}

enum way {
	WAY_DENIED,
	WAY_DIRECT,
	WAY_NAMED, /* directly, because of a name */
	WAY_OWN,   /* directly, because the server is the session's */
	WAY_EGRESS,
};

/* way says how an address may be reached. */
__noinline u32 way(struct question *q)
{
	if (!q)
		return WAY_DENIED;
	if (q->to.port == DNS)
		return WAY_EGRESS;
	u32 action = decide(q);
	if (action == DIRECT)
		return WAY_DIRECT;
	/* What a rule about addresses denies, no name permits. */
	if (q->by.rule < 0 && is_named(q))
		return WAY_NAMED;
	return action == ASK ? WAY_EGRESS : WAY_DENIED;
}

/* egress_port is egress's port for what goes to an address like this; 0: it has none. */
static __always_inline u32 egress_port(struct session *s, u32 kind, bool v4)
{
	if (kind & KIND_UDP)
		return v4 ? s->udp4 : s->udp6;
	return v4 ? s->tcp4 : s->tcp6;
}

/* is_egress says whether an address is egress's own. */
static __always_inline bool is_egress(struct session *s, u32 kind, const struct endpoint *at)
{
	bool v4 = is_ipv4(at);

	if (v4 ? at->addr[3] != LOOPBACK4 : !is_loopback6(at))
		return false;
	return at->port && at->port == egress_port(s, kind, v4);
}

/* egresses marks egress's sockets. Its ports are anybody's when it and who started it are gone, but not the mark. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} egresses SEC(".maps");

/* waits says whether egress waits at one of its ports, where this socket is. It's a function of its own for its callers' stack. */
static __noinline bool waits(void *ctx, u32 kind, bool v4, u32 port)
{
	struct bpf_sock_tuple t = {};
	u32 size = v4 ? sizeof(t.ipv4) : sizeof(t.ipv6);
	struct bpf_sock *sk;
	bool marked;

	if (v4) {
		t.ipv4.daddr = LOOPBACK4;
		t.ipv4.dport = port;
	} else {
		t.ipv6.daddr[3] = bpf_htonl(1);
		t.ipv6.dport = port;
	}
	if (kind & KIND_UDP)
		sk = bpf_sk_lookup_udp(ctx, &t, size, BPF_F_CURRENT_NETNS, 0);
	else
		sk = bpf_sk_lookup_tcp(ctx, &t, size, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return false;
	marked = bpf_sk_storage_get(&egresses, sk, NULL, 0);
	bpf_sk_release(sk);
	return marked;
}

static __always_inline bool is_loopback(const struct endpoint *e)
{
	return is_ipv4(e) ? e->addr[3] == LOOPBACK4 : is_loopback6(e);
}

enum server {
	SERVER_NONE,
	SERVER_OWN,
	SERVER_OTHERS,
};

/* server says whose waits for TCP connections at an address, here: the session has marked its own as they were bound. from is where the
 * connection comes from, by which the kernel chooses among several at one port (SO_REUSEPORT), or nothing. */
static __noinline u32 server(void *ctx, const struct endpoint *from, const struct endpoint *at)
{
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;
	bool v4 = is_ipv4(at);

	if (v4) {
		t.ipv4.saddr = from->addr[3];
		t.ipv4.sport = from->port;
		t.ipv4.daddr = at->addr[3];
		t.ipv4.dport = at->port;
	} else {
		__builtin_memcpy(t.ipv6.saddr, from->addr, sizeof(t.ipv6.saddr));
		t.ipv6.sport = from->port;
		__builtin_memcpy(t.ipv6.daddr, at->addr, sizeof(t.ipv6.daddr));
		t.ipv6.dport = at->port;
	}
	sk = bpf_sk_lookup_tcp(ctx, &t, v4 ? sizeof(t.ipv4) : sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return SERVER_NONE;
	struct peer *p = bpf_sk_storage_get(&peers, sk, NULL, 0);
	bool own = p && p->waits;
	bpf_sk_release(sk);
	return own ? SERVER_OWN : SERVER_OTHERS;
}

#endif
