/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides about a session's addresses and ports: the policy's image and what egress adds to it, made by internal/loader/cgroupsock
 * (image.go, maps_linux.go). Addresses and ports are in network order; an IPv4 address is its IPv6 form (::ffff:a.b.c.d).
 */
#ifndef TOOLGUARD_SOCK_IMAGE_H
#define TOOLGUARD_SOCK_IMAGE_H

struct endpoint {
	u32 addr[4];
	u32 port;
};

struct task {
	u64 ids;   /* 0: nobody is known */
	u64 since; /* boot, suspended or not: when it was looked at, as another may have its number later */
	u32 uid;
	char comm[16];
};

#define KIND_LISTEN 1
#define KIND_UDP 2
#define KIND_IPV6 4

enum action {
	DENY = 0,
	DIRECT,
	ASK, /* egress */
};

struct verdict {
	u32 action;
	s32 layer, rule; /* places in the policy's; -1: none */
	u32 generation;	 /* of the image, which says which policy; 0: it's nobody's word */
};

#define NOBODY ((struct verdict){ .action = DENY, .layer = -1, .rule = -1 })

/* An image has for each port that the policy speaks of, and for port 0, which stands for all others, the ranges of addresses that
 * its rules distinguish. An IPv4 address lies in the first word here. */
struct rule_key {
	u32 bits; /* that count, of what follows */
	u16 kind;
	u16 port;
	u32 addr[4];
};
#define RULE_BITS 32 /* kind and port */
#define MAX_RULES (1 << 18)

struct image {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_RULES);
	__uint(key_size, sizeof(struct rule_key));
	__uint(value_size, sizeof(struct verdict));
};

/* images has the image in force: another one takes its place with one write. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct image);
} images SEC(".maps");

/* names are the places that egress has found for names which may be reached directly. */
struct name_key {
	u32 addr[4];
	u16 port;
	u16 kind;
};

struct name {
	u64 until;	/* since boot, suspended or not: when no socket is let there any more; those that were go on */
	u32 generation; /* of the policy by which egress has found it */
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct name_key);
	__type(value, struct name);
} names SEC(".maps");

/* originals says where what was redirected to egress was going, and by whom: connections, until egress has taken them, and the last datagram
 * from a port. Those that never come there make space for others. */
struct tuple {
	u32 client[4], listener[4];
	u16 client_port, listener_port;
	u32 kind;
};

struct original {
	struct endpoint to;
	struct task by;
	u64 socket, sent; /* of datagrams: whose they are, and how many there were, as others may send from the same port later */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct tuple);
	__type(value, struct original);
} originals SEC(".maps");

#endif
