/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of cgroup programs, from the kernel's stable interface (uapi/linux/bpf.h), as far as they are used. Unlike the types
 * of vmlinux.h, their fields have these offsets in every kernel.
 */
#ifndef TOOLGUARD_SOCK_CTX_H
#define TOOLGUARD_SOCK_CTX_H

enum { BPF_MAP_TYPE_LPM_TRIE = 11 };

struct bpf_spin_lock {
	u32 val;
};

struct bpf_sock {
	u32 bound_dev_if;
	u32 family;
	u32 type;
	u32 protocol;
	u32 mark, priority;
	u32 src_ip4, src_ip6[4], src_port;
	u32 dst_port, dst_ip4, dst_ip6[4];
	u32 state;
};

struct bpf_sock_addr {
	u32 user_family;
	u32 user_ip4;
	u32 user_ip6[4];
	u32 user_port; /* network order, in its lower half */
	u32 family;
	u32 type;
	u32 protocol;
	u32 msg_src_ip4;
	u32 msg_src_ip6[4];
	struct bpf_sock *sk;
};

struct bpf_sockopt {
	struct bpf_sock *sk;
	void *optval, *optval_end;
	s32 level, optname, optlen, retval;
};

/* bpf_sock_tuple is the key of a socket lookup. */
struct bpf_sock_tuple {
	union {
		struct {
			u32 saddr, daddr;
			u16 sport, dport;
		} ipv4;
		struct {
			u32 saddr[4], daddr[4];
			u16 sport, dport;
		} ipv6;
	};
};
#define BPF_F_CURRENT_NETNS (-1L)
#define BPF_MAP_TYPE_LRU_HASH 9

struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan[3];
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
	u32 tc_index;
	u32 cb[5];
	u32 hash;
	u32 tc_classid;
	u32 data;
	u32 data_end;
	u32 napi_id;
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 data_meta;
	u64 flow_keys;
	u64 tstamp;
	u32 wire_len;
	u32 gso_segs;
	struct bpf_sock *sk;
};

_Static_assert(__builtin_offsetof(struct bpf_sock_addr, sk) == 64 && __builtin_offsetof(struct __sk_buff, sk) == 168,
	       "the kernel's interface");

#endif
