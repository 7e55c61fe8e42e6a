/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data for decisions about addresses and ports: the policy's image and the addresses that egress adds, written by
 * internal/loader/cgroupsock (image.go, maps_linux.go). Addresses and ports are in network order. An IPv4 address is IPv4-mapped
 * (::ffff:a.b.c.d).
 */
#ifndef TOOLGUARD_SOCK_IMAGE_H
#define TOOLGUARD_SOCK_IMAGE_H

struct endpoint {
	u32 addr[4];
	u32 port;
};

struct task {
	u64 ids;   /* 0: unknown */
	u64 since; /* time since boot, including suspension, of the record: another task may get the number later */
	u32 uid;
	char comm[16];
};

#define KIND_LISTEN 1
#define KIND_UDP 2
#define KIND_IPV6 4

enum action {
	DENY = 0,
	DIRECT,
	ASK, /* egress decides */
};

struct verdict {
	u32 action;
	s32 layer, rule; /* indices in the policy; -1: none */
	u32 generation;	 /* of the image that decided; 0: none did */
};

#define NO_VERDICT ((struct verdict){ .action = DENY, .layer = -1, .rule = -1 })

/* An image has, for each port in the policy's rules, and for port 0, which means all other ports, the address ranges that the rules
 * distinguish. In a key, an IPv4 address is in the first word. */
struct rule_key {
	u32 bits; /* of the following fields: the prefix's length */
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

/* images has the image in force. One write replaces it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct image);
} images SEC(".maps");

/* names has the addresses to which egress has resolved names that may be reached directly. */
struct name_key {
	u32 addr[4];
	u16 port;
	u16 kind;
};

struct name {
	u64 until;	/* expiry, in time since boot including suspension; sockets that were permitted before stay permitted */
	u32 generation; /* of the policy that permitted the name */
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct name_key);
	__type(value, struct name);
} names SEC(".maps");

/* originals has the original destination and the task of redirected connections, until egress accepts them, and of the last datagram
 * from a port. It's an LRU map, so that entries which never reach egress are evicted. */
struct tuple {
	u32 client[4], listener[4];
	u16 client_port, listener_port;
	u32 kind;
};

struct original {
	struct endpoint to;
	struct task by;
	u64 socket, sent; /* of datagrams: the socket's cookie and their number, since another socket may send from the same port later */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct tuple);
	__type(value, struct original);
} originals SEC(".maps");

#endif
