/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory entries: created, deleted, renamed and linked. A hook gets the folder and the entry's dentry, which exists also for a
 * new name. The callers are system calls (fs/namei.c). The changes that an overlay or a cache makes to its own layers call the
 * hooks of inodes, or come with an internal mount (WALK_INTERNAL).
 *
 * Renames and links are decided as by policy.CheckRename and CheckLink: each name, then whether the file gains a capability.
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

/* A new name has no inode. The verifier of some kernels (6.4 to 6.15 at least) assumes that a dentry has one and removes the check
 * for NULL, so d_inode is read as an address. */
static __always_inline u64 inode_of(struct dentry *dentry)
{
	return (u64)LOAD(struct dentry, (u64)dentry, d_inode);
}

static __always_inline bool is_dir(struct dentry *dentry)
{
	return (LOAD(struct inode, inode_of(dentry), i_mode) & S_IFMT) == S_IFDIR;
}

/* never_made denies creating a file of a kind that no session creates: error for the hook. */
static __always_inline int never_made(struct label *l, u32 op, u32 why, int error, struct vfsmount *mnt, struct dentry *dentry)
{
	struct denial d = { .op = op, .why = why, .need = CAP_CREATE, .error = error, .paths = 1 };

	set_target(l, 0, mnt, dentry);
	decide(l, 0, CAP_CREATE); /* the event reports it, too */
	deny(l, &d);
	return -error;
}

/* unknown reports whether the kernel hasn't looked a name up yet. open calls the hook before the lookup and ignores a denial if the
 * file exists (lookup_open, Linux 5.6 and later). On nearly every file system a name that was looked up and not found is in the
 * hash table of dentries (d_add, d_splice_alias). */
static __always_inline bool unknown(struct dentry *dentry)
{
	return !LOAD(struct dentry, (u64)dentry, d_hash.pprev);
}

/* security_path_mknod: may_o_create (open with O_CREAT), do_mknodat, unix_bind_bsd, for everything but folders, symlinks and hard
 * links. Setuid and setgid files: the seccomp filter denies chmod, this hook denies creating one. The first write clears the bits,
 * except a write by a process outside the session with CAP_FSETID. */
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

/* security_path_mkdir: do_mkdirat. A folder becomes setgid by its parent folder, not by the requested mode (vfs_mkdir,
 * inode_init_owner), and cp -r requests the mode of the folder that it copies: so setgid isn't denied here. */
SEC("lsm/path_mkdir")
int BPF_PROG(toolguard_path_mkdir, const struct path *dir, struct dentry *dentry)
{
	struct label *l = confined();

	return l ? allow(l, OP_CREATE, dir->mnt, dentry, CAP_CREATE) : unconfined(-EACCES);
}

/* security_path_symlink: do_symlinkat. Access to the target is decided when the link is followed. */
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

/* bound reports whether rules depend on this name: the path or one beneath it has an alias, a rule is beneath it, or a pattern has
 * matched a part of the path. */
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

/* gains reports whether the file at target[from] would have more capabilities at the other target. Both have been decided about. A
 * folder moves with everything that is or can be created beneath it. So it may move only where the same patterns apply, no layer
 * grants more, and the session could not have prepared anything that is denied at the old path. */
__noinline bool gains(struct label *l, u32 from, bool dir)
{
	if (!l)
		return true;
	struct match *old = &l->match[from & 1], *new = &l->match[~from & 1];

	if (old->status != WALK_OK) /* on an internal mount, for which policies have no rules */
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
	MOVE_NOWHERE = 8, /* both names are the same */
};

/* move checks need on target[0], need2 on target[1], and gains: 0, or the error for the hook, positive. */
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
