/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk up: from a dentry to the root of the tree that its mount is in, across mounts, never relative to the task's own root.
 *
 * The names and parents are a consistent snapshot: each dentry's d_seq is read on the walk up and compared after the walk
 * down, and d_seq changes when a dentry is renamed or moved (__d_move, fs/dcache.c).
 */
#ifndef TOOLGUARD_DENTRY_H
#define TOOLGUARD_DENTRY_H

#include "lookup.h"

static __always_inline void fence(struct walk *c)
{
	if (!ON_AMD64)
		__sync_lock_test_and_set(&c->order, 0);
}

#define PROC_SUPER_MAGIC 0x9fa0 /* uapi/linux/magic.h */

/* walk_step goes one dentry up, or from a mount's root to where it's mounted; false when there is no further. */
static __always_inline bool walk_step(struct walk *c)
{
	u64 dentry = c->dentry, mount = c->mount, up;
	u32 n = c->n, seq;

	if (dentry == c->root) {
		up = (u64)LOAD(struct mount, mount, mnt_parent);
		if (up == mount) {
			c->status = WALK_OK;
			return false;
		}
		u64 sb = (u64)LOAD(struct mount, mount, mnt.mnt_sb);
		/* Not in a bind mount of a folder beneath /proc, which has no process folders. */
		if (LOAD(struct super_block, sb, s_magic) == PROC_SUPER_MAGIC && (u64)LOAD(struct super_block, sb, s_root) == dentry)
			c->proc = n;
		c->dentry = (u64)LOAD(struct mount, mount, mnt_mountpoint);
		c->mount = up;
		c->root = (u64)LOAD(struct mount, up, mnt.mnt_root);
		return true;
	}
	seq = LOAD(struct dentry, dentry, d_seq.seqcount.sequence);
	up = (u64)LOAD(struct dentry, after(seq, dentry), d_parent);
	if (up == dentry || !up || n >= MAX_DEPTH || seq & 1) {
		c->status = up == dentry ? WALK_DETACHED : !up ? WALK_BROKEN : n >= MAX_DEPTH ? WALK_DEEP : WALK_BUSY;
		return false;
	}
	c->n = n + 1;
	c->dentry = up;
	bounded(n, MAX_DEPTH - 1);
	c->chain[n] = dentry;
	c->seq[n] = seq;
	return true;
}

static __always_inline void walk_from(struct walk *c, struct target *t)
{
	c->dentry = t->dentry;
	c->mount = t->mnt - bpf_core_field_offset(struct mount, mnt);
	c->root = (u64)LOAD(struct mount, c->mount, mnt.mnt_root);
	c->n = 0;
	c->proc = 0;
	c->status = WALK_DEEP;
}

/* walk_up walks to the root of the tree that the mount is in. A plain loop is faster than bpf_loop, whose calls cost as much
 * as a step. As it is a separate global function, the verifier doesn't follow the code after it once for each exit. */
__noinline int walk_up(struct walk *c, struct target *t)
{
	if (!c || !t)
		return 0;
	walk_from(c, t);
	for (u32 i = 0; i < MAX_WALK; i++)
		if (!walk_step(c))
			break;
	return 0;
}

static long walk_up_step(u32 i, void *ctx)
{
	return !walk_step(*(struct walk **)ctx);
}

/* walk_up_loop is walk_up with bpf_loop: a little slower, and cheaper for the verifier. */
__noinline int walk_up_loop(struct walk *c, struct target *t)
{
	if (!c || !t)
		return 0;
	walk_from(c, t);
	bpf_loop(MAX_WALK, walk_up_step, &c, 0);
	return 0;
}

/* changed reports whether a dentry has been moved since the walk up. */
static __always_inline bool changed(struct walk *c, u32 i)
{
	i &= MAX_DEPTH - 1;
	return LOAD(struct dentry, c->chain[i], d_seq.seqcount.sequence) != c->seq[i];
}

static long changed_cold(u32 i, void *ctx)
{
	struct matching *d = ctx;
	struct walk *c = d->c;

	if (i >= c->n)
		return 1;
	if (changed(c, i))
		c->status = WALK_BUSY;
	d->m->stamp += hash_word(c->chain[i & (MAX_DEPTH - 1)], c->seq[i & (MAX_DEPTH - 1)]);
	return 0;
}

static __always_inline void changed_hot(struct walk *c)
{
	for (u32 i = 0; i < MAX_DEPTH; i++) {
		if (i >= c->n)
			break;
		if (changed(c, i))
			c->status = WALK_BUSY;
	}
}

/*
 * where returns the status for the tree in which a walk up ended. The kernel's internal mounts belong to no namespace and have
 * an error pointer in its place (MNT_NS_INTERNAL, fs/mount.h): a file there has no path. The policy has no rules for a tree
 * other than the session's, such as a detached mount or another container's.
 */
static __always_inline u32 where(struct walk *c, u32 status)
{
	u64 ns = (u64)LOAD(struct mount, c->mount, mnt_ns);

	if (ns >= (u64)-4095)
		return WALK_INTERNAL;
	if (status != WALK_OK || !ns)
		return WALK_DETACHED;
	return LOAD(struct mnt_namespace, ns, ns.inum) == c->mount_ns ? WALK_OK : WALK_DETACHED;
}

#endif
