/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that runs until a word in its map is set, for the tests of internal/loader that wait for running programs.
 */
#include "../lib/vmlinux.h"
#include <bpf/bpf_helpers.h>

#define MOST 10000000000ULL /* ns; the kernel complains after 20 s */

struct stay {
	u32 runs, leave;
	u64 until;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stay);
} stays SEC(".maps");

static long stay_on(u32 i, void *ctx)
{
	struct stay *s = *(struct stay **)ctx;

	return *(volatile u32 *)&s->leave || bpf_ktime_get_ns() > s->until;
}

static long stay_long(u32 i, void *ctx)
{
	bpf_loop(1 << 10, stay_on, ctx, 0);
	return stay_on(i, ctx);
}

SEC("raw_tp")
int stay(void *ctx)
{
	u32 zero = 0;
	struct stay *s = bpf_map_lookup_elem(&stays, &zero);

	if (!s)
		return 1;
	s->until = bpf_ktime_get_ns() + MOST;
	__sync_lock_test_and_set(&s->runs, 1);
	bpf_loop(1 << 20, stay_long, &s, 0);
	__sync_lock_test_and_set(&s->runs, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
