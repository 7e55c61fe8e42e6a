/* SPDX-License-Identifier: Apache-2.0 */
/* Decides about an address. An address that isn't in a map, or doesn't fit into one, is denied. */
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

/* peer is the record about the other end of a socket, for the life of the socket. */
struct peer {
	struct original original;  /* the last destination redirected to egress (port 0: none) and the task, which packets don't show
				    * (packet.c); for datagrams also the task that connected the socket */
	struct endpoint permitted; /* the address permitted because of a name: it stays permitted after the name has expired */
	struct bpf_spin_lock whole; /* for permitted: threads share the socket, and a half-written address would be a third one */
	u32 own; /* of TCP: connected because the server is the session's own */
	u32 waits; /* of TCP: bound and not connected since, or accepted from such a socket: the connection is incoming */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE); /* a listener's record is copied to the connections that it accepts */
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

/* Comparisons without branches, each of which the verifier would follow. */

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

/* is_on_link reports whether an address needs a device: IPv6 link-local ones and groups (fe80::/10, ff01::/16, ff02::/16). */
static __always_inline bool is_on_link(const struct endpoint *e)
{
	u32 first = bpf_ntohl(e->addr[0]);

	return (first & 0xffc00000) == 0xfe800000 || first >> 16 == 0xff01 || first >> 16 == 0xff02;
}

/* wrong_device reports whether a socket's device would lead a granted address elsewhere: on another device, another host may have it.
 * The machine's routes choose the device, never the session. */
static __always_inline bool wrong_device(struct session *s, u32 device, const struct endpoint *to)
{
	return device && device != LOOPBACK_IFINDEX && !s->free && !is_on_link(to);
}

/* normalize replaces the unspecified address by loopback, as the kernel does (tcp_v4_connect, tcp_v6_connect and the UDP
 * counterparts). */
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

/* question is a decision about an address. */
struct question {
	u32 kind;
	struct endpoint to;
	struct endpoint permitted; /* for the socket, because of a name */
	struct verdict by;	   /* the policy's decision */
};

/* find looks a range up in an image. It's a separate function so that the object has the key's type, for internal/loader/cgroupsock. */
static __noinline struct verdict *find(void *image, struct rule_key *key)
{
	struct verdict *v = bpf_map_lookup_elem(image, key);

	if (!v) {
		key->port = 0;
		v = bpf_map_lookup_elem(image, key);
	}
	return v;
}

/* decide sets by to the policy's decision about an address, and returns its action. */
__noinline u32 decide(struct question *q)
{
	struct rule_key key = {};
	u32 first = 0;

	if (!q)
		return DENY;
	q->by = NO_VERDICT;
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

/* is_named reports whether egress has resolved a name that may be reached directly to this address: recently, or for this socket. */
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

/* way returns how an address may be reached. */
__noinline u32 way(struct question *q)
{
	if (!q)
		return WAY_DENIED;
	if (q->to.port == DNS)
		return WAY_EGRESS;
	u32 action = decide(q);
	if (action == DIRECT)
		return WAY_DIRECT;
	/* A name permits no address that a rule about addresses denies. */
	if (q->by.rule < 0 && is_named(q))
		return WAY_NAMED;
	return action == ASK ? WAY_EGRESS : WAY_DENIED;
}

/* egress_port is egress's port for such an address; 0: it has none. */
static __always_inline u32 egress_port(struct session *s, u32 kind, bool v4)
{
	if (kind & KIND_UDP)
		return v4 ? s->udp4 : s->udp6;
	return v4 ? s->tcp4 : s->tcp6;
}

/* is_egress reports whether an address is egress's own. */
static __always_inline bool is_egress(struct session *s, u32 kind, const struct endpoint *at)
{
	bool v4 = is_ipv4(at);

	if (v4 ? at->addr[3] != LOOPBACK4 : !is_loopback6(at))
		return false;
	return at->port && at->port == egress_port(s, kind, v4);
}

/* egresses marks egress's sockets. When egress and toolguard have ended, any process can bind its ports, but not get the mark. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} egresses SEC(".maps");

/* waits reports whether egress listens at one of its ports in this socket's network namespace. It's a separate function for its
 * callers' stack size. */
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

/* server returns whose listener is at an address: the session's own are marked when they are bound. from is the connection's source,
 * by which the kernel selects among several at one port (SO_REUSEPORT), or NULL. */
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
