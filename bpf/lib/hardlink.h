/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule about a file that has several hard links applies under every one of its names (policy.Link). Hard links are entries
 * among the edges, found by inode number. No node has a number as high as theirs.
 */
#ifndef TOOLGUARD_HARDLINK_H
#define TOOLGUARD_HARDLINK_H

#include "automaton.h"

/* file_hash spreads inode numbers, which may be any distance apart. */
static __always_inline u32 file_hash(struct walk *c, u64 number)
{
	return hash_end(hash_word(hash_word(c->header[H_SEED], number), 0));
}

struct hardlink_rules {
	struct walk *c;
	struct match *m;
	u32 need, record, dev;
};

/* hardlink_step removes what the i-th rule denies. As in layer_step, layer and hit name the first that denied some of need. */
static long hardlink_step(u32 i, void *ctx)
{
	struct hardlink_rules *o = ctx;
	struct match *m = o->m;
	struct line *l = line_of(o->c->image, o->record + 1 + i / 4);

	if (!l) {
		m->linked = 0;
		return 1;
	}
	u32 on = l->w[(i & 3) * 4], layer = l->w[(i & 3) * 4 + 1], h = l->w[(i & 3) * 4 + 2];
	if (on && on != o->dev)
		return 0;
	if ((o->need & ~HIT_CAPS(h)) && m->layer == NO_LAYER) {
		m->hit = h;
		m->layer = layer;
	}
	m->linked &= HIT_CAPS(h);
	return 0;
}

/* apply_hardlinks removes what the rules about a file deny under any of its names. */
__noinline int apply_hardlinks(struct walk *c, struct match *m, u64 dentry, u32 need)
{
	if (!c || !m)
		return 0;
	u64 inode = (u64)LOAD(struct dentry, dentry, d_inode), number = LOAD(struct inode, inode, i_ino);
	u32 high = LINKED | number >> 32, low = number;
	if (!find(c, H_EDGES, file_hash(c, number), high, low))
		return 0;
	struct hardlink_rules o = { .c = c, .m = m, .need = need, .record = c->found.to };
	struct line *head = line_of(c->image, o.record);
	if (!head || head->w[0] > MAX_LINKED) {
		m->linked = 0;
		return 0;
	}
	o.dev = LOAD(struct super_block, LOAD(struct inode, inode, i_sb), s_dev);
	bpf_loop(head->w[0], hardlink_step, &o, 0);
	return 0;
}

#endif
