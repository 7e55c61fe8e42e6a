/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: made, taken away, moved and given again. A hook gets the folder and the entry's dentry, which is there for a name
 * that doesn't exist yet, too. The callers are system calls (fs/namei.c); what an overlay or a cache does to its own
 * layers comes by the hooks of inodes, or with a mount of its own (WALK_INTERNAL).
 *
 * What moves is decided as policy.CheckRename and CheckLink do: each name for itself, then whether anything is gained.
 */

#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_ISUID 04000
#define S_ISGID 02000
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4

/* A new name has no inode. The verifier of some kernels takes for granted that a dentry has one (6.4 to 6.15 at least) and leaves
 * out what asks, so it's read as an address. */
static __always_inline u64 inode_of(struct dentry *dentry)
{
	return (u64)LOAD(struct dentry, (u64)dentry, d_inode);
}

static __always_inline bool is_dir(struct dentry *dentry)
{
	return (LOAD(struct inode, inode_of(dentry), i_mode) & S_IFMT) == S_IFDIR;
}

/* never_made denies what no session makes: error for the hook. */
static __always_inline int never_made(struct label *l, u32 op, u32 why, int error, struct vfsmount *mnt, struct dentry *dentry)
{
	struct denial d = { .op = op, .why = why, .need = CAP_CREATE, .error = error, .paths = 1 };

	set_target(l, 0, mnt, dentry);
	decide(l, 0, CAP_CREATE); /* the event reports it, too */
	deny(l, &d);
	return -error;
}

/* unknown says whether the kernel hasn't looked a name up yet: open asks before that, and takes back what it was denied if there is
 * something (lookup_open, Linux 5.6 and later). A name that was found not to be there is in the hash table of names, on nearly
 * every file system (d_add, d_splice_alias). */
static __always_inline bool unknown(struct dentry *dentry)
{
	return !LOAD(struct dentry, (u64)dentry, d_hash.pprev);
}

/* security_path_mknod: may_o_create (open with O_CREAT), do_mknodat, unix_bind_bsd. Everything that isn't a folder, a symlink
 * or a hard link. What others execute with the session's user or group the filter of system calls keeps chmod from making so; here a file would
 * be made so. The first byte that is written to it takes the bits off again, unless somebody outside writes it who may keep them
 * (CAP_FSETID). */
SEC("lsm/path_mknod")
int BPF_PROG(toolguard_path_mknod, const struct path *dir, struct dentry *dentry, unsigned short mode, unsigned int dev)
{
	struct label *l = confined();
	u32 type = mode & S_IFMT;

	if (!l)
		return unconfined(-EACCES);
	if (type == S_IFCHR || type == S_IFBLK)
		return never_made(l, OP_CREATE, WHY_DEVICE, EACCES, dir->mnt, dentry);
	if (mode & (S_ISUID | S_ISGID))
		return never_made(l, OP_CREATE, WHY_ALWAYS, EPERM, dir->mnt, dentry);

	struct denial d = {
		.op = OP_CREATE, .need = CAP_CREATE, .detail = unknown(dentry) ? CREATE_UNKNOWN : 0, .error = EACCES, .paths = 1,
	};

	set_target(l, 0, dir->mnt, dentry);
	d.why = decide(l, 0, CAP_CREATE);
	if (d.why)
		deny(l, &d);
	return d.why ? -EACCES : 0;
}

/* security_path_mkdir: do_mkdirat. The mode that is asked for doesn't make a folder setgid, the folder above it does (vfs_mkdir,
 * inode_init_owner); cp -r asks for that of what it copies. */
SEC("lsm/path_mkdir")
int BPF_PROG(toolguard_path_mkdir, const struct path *dir, struct dentry *dentry)
{
	struct label *l = confined();

	return l ? allow(l, OP_CREATE, dir->mnt, dentry, CAP_CREATE) : unconfined(-EACCES);
}

/* security_path_symlink: do_symlinkat. Where it points to is decided when it's followed. */
SEC("lsm/path_symlink")
int BPF_PROG(toolguard_path_symlink, const struct path *dir, struct dentry *dentry)
{
	struct label *l = confined();

	return l ? allow(l, OP_CREATE, dir->mnt, dentry, CAP_CREATE) : unconfined(-EACCES);
}

/* security_path_unlink: do_unlinkat. */
SEC("lsm/path_unlink")
int BPF_PROG(toolguard_path_unlink, const struct path *dir, struct dentry *dentry)
{
	struct label *l = confined();

	return l ? allow(l, OP_DELETE, dir->mnt, dentry, CAP_DELETE) : unconfined(-EACCES);
}

/* security_path_rmdir: do_rmdir. */
SEC("lsm/path_rmdir")
int BPF_PROG(toolguard_path_rmdir, const struct path *dir, struct dentry *dentry)
{
	struct label *l = confined();

	return l ? allow(l, OP_DELETE, dir->mnt, dentry, CAP_DELETE) : unconfined(-EACCES);
}

/* bound says whether rules hold to this very name: they know what it names, or what lies beneath, by another name as well, one
 * lies beneath it, or it's in the middle of what a pattern matches. */
static __always_inline bool bound(struct walk *c, struct match *m)
{
	struct line *finals = line_of(c->image, c->header[H_FINALS]);
	struct line *nodes = m->node == NO_NODE ? NULL : line_of(c->image, c->header[H_NODES] + m->node / 4);

	if (m->names || !finals || (!nodes && m->node != NO_NODE))
		return true;
	if (nodes && nodes->w[(m->node & 3) * 4 + 3] & NODE_BENEATH)
		return true;
	for (u32 i = 0; i < MAX_WORDS; i++)
		if (m->state[i] & ~finals->q[i])
			return true;
	return false;
}

/* gains says whether what lies at target[from], both having been decided about, could do more at the other target. A folder takes
 * along what is beneath it and what could come to be there, so it moves only where the same patterns look at it, each layer
 * gives no more, and nothing that was denied before can have been prepared. */
__noinline bool gains(struct label *l, u32 from, bool dir)
{
	if (!l)
		return true;
	struct match *old = &l->match[from & 1], *new = &l->match[~from & 1];

	if (old->status != WALK_OK) /* on a mount of the kernel's own, where no policy speaks */
		return new->status == WALK_OK;
	if (!dir)
		return new->caps & ~old->caps;
	if (bound(&l->walk, old) || bound(&l->walk, new))
		return true;
	for (u32 i = 0; i < MAX_WORDS; i++)
		if (old->starts[i] != new->starts[i])
			return true;
	for (u32 i = 0; i < MAX_LAYERS; i++) {
		if (i >= l->walk.header[H_NLAYERS])
			break;
		u32 was = old->cover[i], is = new->cover[i];
		if (is & ~was || was & CAP_BRINGS & ~is)
			return true;
	}
	return false;
}

/* internal/loader (event.go) has the same list. */
enum {
	MOVE_DIR = 1,
	MOVE_BACK = 2, /* the second target moves to the first one's name, too */
	MOVE_BACK_DIR = 4,
	MOVE_NOWHERE = 8, /* both names are one */
};

/* move asks for need on target[0] and need2 on target[1], and that nothing gains: 0, or the error for the hook, positive. */
__noinline u32 move(struct label *l, u32 op, u32 need, u32 need2, u32 how)
{
	struct denial d = { .op = op, .need = need, .need2 = need2, .error = EACCES, .paths = 2 };

	if (!l)
		return EACCES;
	d.why = decide(l, 0, need);
	u32 image = l->walk.image;
	u32 why = decide(l, 1, need2);
	if (!d.why)
		d.why = why;
	if (l->walk.image != image) { /* between the two */
		l->match[0].status = WALK_EXCHANGED;
		d.why = WHY_UNRESOLVED;
	}
	if (!d.why && !(how & MOVE_NOWHERE) &&
	    (gains(l, 0, how & MOVE_DIR) || (how & MOVE_BACK && gains(l, 1, how & MOVE_BACK_DIR)))) {
		d.why = WHY_GAIN;
		d.detail = how;
		d.error = EXDEV; /* mv then copies and deletes, and is decided by that */
	}
	if (!d.why)
		return 0;
	deny(l, &d);
	return d.error;
}

/* security_path_link: do_linkat, for O_TMPFILE's unnamed files and AT_EMPTY_PATH as well. Both names are on one mount. */
SEC("lsm/path_link")
int BPF_PROG(toolguard_path_link, struct dentry *old, const struct path *dir, struct dentry *new)
{
	struct label *l = confined();
	u32 error;

	if (!l)
		return unconfined(-EACCES);
	set_target(l, 0, dir->mnt, old);
	set_target(l, 1, dir->mnt, new);
	error = move(l, OP_LINK, CAP_READ, CAP_CREATE, 0);
	return !error ? 0 : error == EXDEV ? -EXDEV : -EACCES;
}

/* security_path_rename: do_renameat2, once for both names, RENAME_EXCHANGE too (since Linux 5.19). RENAME_WHITEOUT leaves a
 * device at the old name. */
SEC("lsm/path_rename")
int BPF_PROG(toolguard_path_rename, const struct path *old_dir, struct dentry *old, const struct path *new_dir,
	     struct dentry *new, unsigned int flags)
{
	struct label *l = confined();
	u32 need = CAP_DELETE, need2 = inode_of(new) ? CAP_UPDATE : CAP_CREATE, how = 0, error;

	if (!l)
		return unconfined(-EACCES);
	if (flags & RENAME_WHITEOUT)
		return never_made(l, OP_RENAME, WHY_DEVICE, EACCES, old_dir->mnt, old);
	if (is_dir(old))
		how |= MOVE_DIR;
	if (old == new)
		how |= MOVE_NOWHERE;
	if (flags & RENAME_EXCHANGE) {
		need = need2 = CAP_DELETE | CAP_UPDATE;
		how |= MOVE_BACK | (is_dir(new) ? MOVE_BACK_DIR : 0);
	}
	set_target(l, 0, old_dir->mnt, old);
	set_target(l, 1, new_dir->mnt, new);
	error = move(l, OP_RENAME, need, need2, how);
	return !error ? 0 : error == EXDEV ? -EXDEV : -EACCES;
}
