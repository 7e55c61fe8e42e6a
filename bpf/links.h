/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule says of a file that has several hard links holds under all of them (policy.Link). They are found among the
 * edges, by the inode's number; no node has one as high.
 */
#ifndef TOOLGUARD_LINKS_H
#define TOOLGUARD_LINKS_H

/* file_hash spreads the numbers of files, which may be any distance apart. */
static __always_inline u32 file_hash(struct climb *c, u64 number)
{
	return hash_end(hash_word(hash_word(c->header[H_SEED], number), 0));
}

/* hold takes away what the rules about a file do. As in caps_of, layer and hit say who was the first to withhold some of need. */
__noinline int hold(struct climb *c, struct match *m, u64 dentry, u32 need)
{
	if (!c || !m)
		return 0;
	u64 inode = (u64)LOAD(struct dentry, dentry, d_inode), number = LOAD(struct inode, inode, i_ino);
	u32 dev = LOAD(struct super_block, LOAD(struct inode, inode, i_sb), s_dev);
	u32 high = LINKED | number >> 32, low = number;
	if (!find(c, H_EDGES, file_hash(c, number), high, low))
		return 0;
	u32 record = c->found.to;
	struct line *head = line_of(c->image, record);
	for (u32 i = 0; i < MAX_LINKED; i++) {
		if (head && i >= head->w[0])
			break;
		struct line *l = line_of(c->image, record + 1 + i / 4);
		if (!head || !l) {
			m->held = 0;
			break;
		}
		u32 on = l->w[(i & 3) * 4], layer = l->w[(i & 3) * 4 + 1], h = l->w[(i & 3) * 4 + 2];
		if (on && on != dev)
			continue;
		if ((need & ~HIT_CAPS(h)) && m->layer == NO_LAYER) {
			m->hit = h;
			m->layer = layer;
		}
		m->held &= HIT_CAPS(h);
	}
	return 0;
}

#endif
