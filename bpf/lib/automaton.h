/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk down: follows the names from the root through the image's trie and through the patterns, as
 * policy.Compiled.CheckFS does.
 */
#ifndef TOOLGUARD_AUTOMATON_H
#define TOOLGUARD_AUTOMATON_H

#include "member.h"

static __always_inline void add_set(struct walk *c, u32 set)
{
	struct line *l = set ? line_of(c->image, set) : NULL;
	if (!l)
		return;
	for (u32 i = 0; i < MAX_WORDS && i < (c->header[H_SEED] & 0xff); i++)
		c->mask[i] |= l->q[i];
}

/* affix_step follows a name's next byte in the trie of prefixes, or of suffixes from the name's end. */
static long affix_step(u32 i, void *ctx)
{
	struct walk *c = *(struct walk **)ctx;

	if (i >= c->len || !affordable(c, 1))
		return 1;
	u32 at = c->backwards ? c->len - 1 - i : i;
	u8 b = ((u8 *)c->name)[at & 0xff];
	if (!find(c, H_EDGES, edge_hash(c, c->affix, b), c->affix, b))
		return 1;
	add_set(c, c->found.set);
	c->affix = c->found.to;
	return 0;
}

/* follow_affix adds the sets of every prefix of the name read, or of every suffix. */
__noinline int follow_affix(struct walk *c, u32 root, u32 backwards)
{
	if (!c)
		return 0;
	c->affix = root;
	c->backwards = backwards;
	bpf_loop(MAX_NAME, affix_step, &c, 0);
	return 0;
}

/* fold is a byte's bit in a filter: capitals have those of small letters. */
static __always_inline u32 fold(u8 b)
{
	return (b & 31) | (b >> 1 & 32);
}

/* pair is the bit of two bytes in a filter. */
static __always_inline u32 pair(u8 a, u8 b)
{
	return fold(a) + 7 * fold(b);
}

/* in_filter looks up a byte, and then the bit of others. */
static __always_inline bool in_filter(struct walk *c, u32 filter, u8 byte, u32 others)
{
	u32 f = fold(byte);

	if (!(c->filter[filter] >> f & 1))
		return false;
	struct line *l = line_of(c->image, c->header[H_FILTER] + 1 + filter * 8 + f / 8);
	return !l || l->q[f & 7] >> (others & 63) & 1;
}

/* ends is the first three bytes of a name, and the last three, the very last one first. Those that a shorter name doesn't have are any. */
struct ends {
	u8 first[3], last[3];
};

/* may returns which parts of a name some pattern can match, judged by its ends: MAY_BEGIN, MAY_END, MAY_ALL. */
static __always_inline u32 may(struct walk *c, struct ends *e)
{
	return (in_filter(c, FILTER_PREFIX, e->first[0], pair(e->first[1], e->first[2])) ? MAY_BEGIN : 0) |
	       (in_filter(c, FILTER_SUFFIX, e->last[0], pair(e->last[1], e->last[2])) ? MAY_END : 0) |
	       (in_filter(c, FILTER_NAMES, e->first[0], fold(e->last[0])) ? MAY_ALL : 0);
}

/* may_name is may for the name that was read. */
static __always_inline u32 may_name(struct walk *c)
{
	u8 *name = (u8 *)c->name;
	u32 len = c->len;
	struct ends e = {
		.first = { name[0], name[1], name[2] },
		.last = { name[(len - 1) & 0xff], name[(len - 2) & 0xff], name[(len - 3) & 0xff] },
	};

	return may(c, &e);
}

static __always_inline void match_word(struct match *m, u32 h)
{
	if (h & HIT_GRANTS && m->name)
		return;
	m->decided[HIT_TABLE(h)] = h;
}

static __always_inline u32 lowest_bit(u64 v)
{
	u64 low = v & -v;
	return (!!(low & 0xAAAAAAAAAAAAAAAAULL)) | (!!(low & 0xCCCCCCCCCCCCCCCCULL)) << 1 |
	       (!!(low & 0xF0F0F0F0F0F0F0F0ULL)) << 2 | (!!(low & 0xFF00FF00FF00FF00ULL)) << 3 |
	       (!!(low & 0xFFFF0000FFFF0000ULL)) << 4 | (!!(low & 0xFFFFFFFF00000000ULL)) << 5;
}

/* hit_step applies the hit of the lowest final bit that remains. Later rules have higher bits, so the last one prevails. */
static long hit_step(u32 i, void *ctx)
{
	struct matching *d = ctx;
	struct walk *c = d->c;
	u32 word = c->word & (MAX_WORDS - 1);

	if (!affordable(c, 1))
		return 1;
	if (!c->mask[word]) {
		c->word = word + 1;
		return word + 1 >= (c->header[H_SEED] & 0xff);
	}
	u32 bit = word * 64 + lowest_bit(c->mask[word]);
	c->mask[word] &= c->mask[word] - 1;
	struct line *l = line_of(c->image, c->header[H_BIT_HITS] + bit / 16);
	if (!l)
		return 0;
	u32 h = l->w[bit & 15];
	if (d->m->name && !(c->counts[word] >> (bit & 63) & 1))
		h |= HIT_KNOWN;
	match_word(d->m, h);
	return 0;
}

/* apply_hits applies the hits of all final bits in mask. */
__noinline int apply_hits(struct walk *c, struct match *m)
{
	if (!c || !m)
		return 0;
	struct matching d = { .c = c, .m = m };

	c->word = 0;
	bpf_loop(MAX_WORDS * 65, hit_step, &d, 0);
	return 0;
}

/* step_patterns advances the patterns' bits by the name read; some is the result of may for it. */
__noinline int step_patterns(struct walk *c, struct match *m, u32 some)
{
	u64 carry = 0, hits = 0;

	if (!c || !m)
		return 0;
	u32 words = c->header[H_SEED] & 0xff;

	for (u32 i = 0; i < MAX_WORDS; i++)
		c->mask[i] = 0;
	if (some & MAY_ALL && find(c, H_NAMES, c->hash, c->hash, c->len)) {
		u32 set = c->found.set;
		if (same_name(c, c->found.to, c->len))
			add_set(c, set);
	}
	if (some & MAY_BEGIN)
		follow_affix(c, c->header[H_PREFIX], 0);
	if (some & MAY_END)
		follow_affix(c, c->header[H_SUFFIX], 1);
	struct line *finals = line_of(c->image, c->header[H_FINALS]);
	if (!finals)
		return 0;
	for (u32 i = 0; i < MAX_WORDS && i < words; i++) {
		u64 open = m->state[i] & ~finals->q[i];
		m->state[i] = (open << 1 | carry | m->starts[i]) & c->mask[i];
		carry = open >> 63;
		c->mask[i] = m->state[i] & finals->q[i];
		hits |= c->mask[i];
	}
	if (hits)
		apply_hits(c, m);
	return 0;
}

/* node_hit applies a node's i-th hit. */
static __always_inline void node_hit(struct walk *c, struct match *m, u32 i)
{
	u32 at = c->hits + i;
	struct line *l = line_of(c->image, c->header[H_HITS] + at / 16);

	if (l)
		match_word(m, l->w[at & 15]);
}

#define FEW_HITS 4

static long more_hits(u32 i, void *ctx)
{
	struct matching *d = ctx;

	node_hit(d->c, d->m, FEW_HITS + i);
	return 0;
}

/* enter moves the walk to a node of the trie. Most nodes have few hits, which are applied without a call. */
__noinline int enter(struct walk *c, struct match *m, u32 node)
{
	if (!c || !m)
		return 0;
	struct line *l = line_of(c->image, c->header[H_NODES] + node / 4);
	m->node = node;
	if (!l) {
		m->status = WALK_BROKEN;
		return 0;
	}
	u32 n = l->w[(node & 3) * 4 + 1], starts = l->w[(node & 3) * 4 + 2];
	c->hits = l->w[(node & 3) * 4];
	if (NODE_NAMES(n)) {
		m->names = NODE_NAMES(n);
		n = NODE_HITS(n);
	}
	if (starts) {
		struct line *s = line_of(c->image, starts);
		m->live = 1;
		if (s)
			for (u32 i = 0; i < MAX_WORDS; i++)
				m->starts[i] |= s->q[i];
	}
	for (u32 i = 0; i < FEW_HITS; i++) {
		if (i >= n)
			return 0;
		node_hit(c, m, i);
	}
	if (n > MAX_HITS)
		m->status = WALK_BROKEN;
	else if (n > FEW_HITS) {
		struct matching d = { .c = c, .m = m };
		bpf_loop(n - FEW_HITS, more_hits, &d, 0);
	}
	return 0;
}

static __always_inline u32 own_process(struct walk *c)
{
	u64 word = 'f' << 24 | 'l' << 16 | 'e' << 8 | 's';
	u64 h = hash_word(c->header[H_SEED] + 4, word);

	c->name[0] = word;
	c->hash = hash_end(h);
	return 4;
}

/* no_pattern is step_patterns for a name that no pattern matches. */
static __always_inline void no_pattern(struct match *m)
{
	for (u32 i = 0; i < MAX_WORDS; i++)
		m->state[i] = 0;
}

/* cannot_match reports whether the ends of a dentry's name show that no pattern matches it. */
static __always_inline bool cannot_match(struct walk *c, u64 dentry)
{
	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return false;
	u32 len = LOAD(struct dentry, dentry, d_name.len);
	u64 name = (u64)LOAD(struct dentry, dentry, d_name.name), end = name + len;

	if (len - 1 >= MAX_NAME)
		return false;
	struct ends e = {
		.first = { BYTE(name), BYTE(name + 1), BYTE(name + 2) },
		.last = { BYTE(end - 1), BYTE(end - 2), BYTE(end - 3) },
	};
	return !may(c, &e);
}

/* match_next follows the i-th name from the root; false when no rule can match any deeper. */
static __always_inline bool match_next(struct walk *c, struct match *m, u32 i, bool hot)
{
	u32 n = c->n, len;
	bool known;

	if (i >= n)
		return false;
	u64 dentry = c->chain[(n - 1 - i) & (MAX_DEPTH - 1)];
	bool process = n - i == c->proc; /* 0: there is none */
	if (hot && m->node == NO_NODE && !process && cannot_match(c, dentry)) {
		no_pattern(m);
		return true;
	}
	len = hot ? read_name(c, dentry) : read_name_cold(c, dentry);
	if (!len) {
		m->status = WALK_BROKEN;
		return false;
	}
	if (process && is_own(c, dentry))
		len = own_process(c);
	c->len = len;
	if (m->live) {
		u32 some = may_name(c);
		if (some)
			step_patterns(c, m, some);
		else
			no_pattern(m);
	}
	if (m->node != NO_NODE) {
		u32 from = m->node, h = edge_hash(c, from, c->hash);
		known = hot ? find(c, H_EDGES, h, from, c->hash) : find_cold(c, H_EDGES, h, from, c->hash);
		u32 to = c->found.to, name = c->found.set;
		if (known && EDGE_LEN(name) == len)
			known = hot ? same_name(c, EDGE_TEXT(name), len) : same_name_cold(c, EDGE_TEXT(name), len);
		else
			known = false;
		m->node = known ? to : NO_NODE;
		if (known && EDGE_SAYS(name))
			enter(c, m, to);
	}
	return m->node != NO_NODE || m->live;
}

static long match_next_hot(u32 i, void *ctx)
{
	struct matching *d = ctx;

	return !match_next(d->c, d->m, i, true);
}

static long match_next_cold(u32 i, void *ctx)
{
	struct matching *d = ctx;

	return !match_next(d->c, d->m, i, false);
}

/* decider is the hit that decided in a table; table is the table's number plus one. */
static __always_inline u32 decider(struct match *m, u32 table)
{
	return table ? m->decided[(table - 1) & (MAX_TABLES - 1)] : NO_HIT;
}

/* secret is what decided in a table of secrets: NO_HIT where that's an exception. */
static __always_inline u32 secret(struct match *m, u32 table)
{
	u32 h = decider(m, table);

	return HIT_CAPS(h) & CAP_READ ? NO_HIT : h;
}

#endif
