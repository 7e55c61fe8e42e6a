/* SPDX-License-Identifier: Apache-2.0 */
/* Looks names up in an image: lines, buckets, edges and the text of the names. */
#ifndef TOOLGUARD_LOOKUP_H
#define TOOLGUARD_LOOKUP_H

#include "kernel.h"
#include "hash.h"
#include "walk.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 131072);
	__type(key, u32);
	__type(value, struct line);
} images SEC(".maps");

static __always_inline struct line *line_of(u32 image, u32 at)
{
	u32 i = image + at;
	return bpf_map_lookup_elem(&images, &i);
}

/* find looks an entry up in the buckets that begin at line first, and stores it in found. Every entry of an image is within
 * MAX_PROBES buckets of its hash, and every bucket before it is full. */
static __always_inline bool find(struct walk *c, u32 table, u32 hash, u32 a, u32 b)
{
	u32 first = c->header[table & 15], mask = c->header[(table + 1) & 15];
	for (u32 probe = 0; probe < MAX_PROBES; probe++) {
		struct line *l = line_of(c->image, first + ((hash + probe) & mask));
		if (!l)
			return false;
		for (u32 i = 0; i < 4; i++) {
			if (!l->w[4 * i + 2])
				return false;
			if (l->w[4 * i] == a && l->w[4 * i + 1] == b) {
				c->found.to = l->w[4 * i + 2];
				c->found.set = l->w[4 * i + 3];
				return true;
			}
		}
	}
	return false;
}

/* edge_hash spreads consecutive numbers on both sides. Where it spreads badly, the image uses another seed. */
static __always_inline u32 edge_hash(struct walk *c, u32 from, u32 label)
{
	return hash_end(from * (0x9E3779B97F4A7C15ULL ^ (u64)c->header[H_SEED] << 50) + label * 0x6A09E667F3BCC909ULL);
}

/* read_name reads a dentry's name, padded with zeros to whole words, and computes its hash. It returns the length; 0: unreadable. */
static __always_inline u32 read_name(struct walk *c, u64 dentry)
{
	u32 len = LOAD(struct dentry, dentry, d_name.len);
	u64 name = (u64)LOAD(struct dentry, dentry, d_name.name);
	if (len == 0 || len > MAX_NAME)
		return 0;
	len &= 0xff;
	u64 h = c->header[H_SEED] + len;
	u32 whole = len >> 3;
	if (bpf_ksym_exists(bpf_rdonly_cast) && !(name & 7) && whole < NAME_WORDS) {
		struct pt_regs *w = bpf_rdonly_cast((void *)name, bpf_core_type_id_kernel(struct pt_regs));
		for (u32 i = 0; i < NAME_WORDS; i++) {
			u64 v = w->r[i];
			if (i >= whole) {
				v &= (1ULL << ((len & 7) * 8)) - 1;
				c->name[i] = v;
				if (len & 7)
					h = hash_word(h, v);
				break;
			}
			c->name[i] = v;
			h = hash_word(h, v);
		}
	} else {
		c->name[whole & 31] = 0;
		if (bpf_probe_read_kernel(c->name, len, (void *)name))
			return 0;
		for (u32 i = 0; i < 32; i++) {
			if (i * 8 >= len)
				break;
			h = hash_word(h, c->name[i]);
		}
	}
	c->hash = hash_end(h);
	return len;
}

/* same_name compares the name read with a name in the image. */
static __always_inline bool same_name(struct walk *c, u32 text, u32 len)
{
	for (u32 l = 0; l < 4; l++) {
		if (l * 64 >= len)
			break;
		struct line *t = line_of(c->image, text + l);
		if (!t)
			return false;
		for (u32 i = 0; i < 8; i++) {
			if (l * 64 + i * 8 >= len)
				break;
			if (t->q[i] != c->name[l * 8 + i])
				return false;
		}
	}
	return true;
}

/* The parts of a step as global functions, which the verifier checks once each: see match. */
__noinline u32 read_name_cold(struct walk *c, u64 dentry)
{
	return c ? read_name(c, dentry) : 0;
}

__noinline bool find_cold(struct walk *c, u32 table, u32 hash, u32 a, u32 b)
{
	return c && find(c, table, hash, a, b);
}

__noinline bool same_name_cold(struct walk *c, u32 text, u32 len)
{
	return c && same_name(c, text, len);
}

#endif
