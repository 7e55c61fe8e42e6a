/* SPDX-License-Identifier: Apache-2.0 */
/* Existing files: opened, received, truncated, watched, their metadata changed. */

#define FMODE_READ 0x1
#define FMODE_WRITE 0x2
#define FMODE_EXEC 0x20		/* in f_flags: the kernel opens it to execute it; exec.c decides */
#define FMODE_CREATED 0x100000
#define FMODE_NOACCOUNT 0x20000000
#define O_ACCMODE 3
#define O_TRUNC 01000
#define O_TMPFILE 020000000

/* opened is the need for the mode that a file is open with, except for creating it. O_TRUNC counts here, since the kernel calls the
 * hook for truncation only after the file system has opened the file, and an overlay has copied it up without its content. */
static __always_inline u32 opened(struct file *file)
{
	u32 need = 0, cuts = file->f_flags & O_TRUNC && (file->f_inode->i_mode & S_IFMT) == S_IFREG;

	if (file->f_mode & FMODE_READ)
		need |= CAP_READ;
	if ((file->f_mode & FMODE_WRITE || cuts) && !(file->f_mode & FMODE_CREATED))
		need |= CAP_UPDATE;
	if ((file->f_flags & O_ACCMODE) == O_ACCMODE) /* neither: for ioctl */
		need |= CAP_READ | CAP_UPDATE;
	if (file->f_flags & O_TMPFILE)
		need = (need & ~CAP_UPDATE) | CAP_CREATE;
	return need;
}

#define PF_IO_WORKER 0x10

/* on_behalf reports whether the kernel acts with credentials of its own: an overlay on its layers, a cache on its files. io_uring's
 * workers have the credentials of the task that submitted the request. */
static __always_inline bool on_behalf(void)
{
	struct task_struct *t = bpf_get_current_task_btf();

	return t->cred != t->real_cred && !(t->flags & PF_IO_WORKER);
}

#define MAX_FDS 65536

/* open_as collects how an inode is open among a task's descriptors. */
struct open_as {
	struct file **files;
	u64 inode;
	u32 need, mode;
};

static long open_as_step(u32 i, void *ctx)
{
	struct open_as *o = ctx;
	struct file *file = NULL, *again = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), o->files + i);
	if (!file || (u64)LOAD(struct file, file, f_inode) != o->inode)
		return 0;
	u32 mode = LOAD(struct file, file, f_mode);
	/* Another thread may have closed it and opened another file at the same number. */
	bpf_probe_read_kernel(&again, sizeof(again), o->files + i);
	if (again == file && (u64)LOAD(struct file, file, f_inode) == o->inode && LOAD(struct file, file, f_mode) == mode)
		o->mode |= mode;
	return (o->mode & o->need) == o->need;
}

#define S_IFIFO 0010000
#define SB_KERNMOUNT (1 << 22)
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6

/* exceeds denies opening a pipe or a memfd, which has no path, with more access than the task already has, after the decision about
 * target[0]. Through /proc/self/fd a task with one end of a pipe can open the other: the end that a shell reads commands from, for
 * example. A memfd is on the kernel's internal tmpfs, which can't be an overlay's layer. */
static __noinline bool exceeds(struct label *l, struct inode *inode, u32 op, u32 need)
{
	if (!l || !inode || l->match[0].status != WALK_INTERNAL)
		return false;
	struct task_struct *t = bpf_get_current_task_btf();
	u32 type = inode->i_mode & S_IFMT;
	struct super_block *sb = inode->i_sb;
	bool memory = sb->s_flags & SB_KERNMOUNT && (sb->s_magic == TMPFS_MAGIC || sb->s_magic == HUGETLBFS_MAGIC);

	if (type != S_IFIFO && !(type == S_IFREG && memory))
		return false;
	struct fdtable *fdt = t->files->fdt;
	struct open_as o = { .files = fdt->fd, .inode = (u64)inode, .need = (need & CAP_READ ? FMODE_READ : 0) | (need & CAP_UPDATE ? FMODE_WRITE : 0) };
	u32 n = fdt->max_fds;
	bpf_loop(n < MAX_FDS ? n : MAX_FDS, open_as_step, &o, 0);
	if ((o.mode & o.need) == o.need)
		return false;
	struct denial d = { .op = op, .why = WHY_OUTSIDE, .need = need, .error = EACCES, .paths = 1 };
	deny(l, &d);
	return true;
}

/* security_file_open: do_dentry_open, so every open but O_PATH, by any system call. path_mknod has already decided about a new file's
 * name, but not about an unnamed file (O_TMPFILE): this hook decides about creating it in its folder, and about its mode. Files that
 * the kernel opens for itself don't count (alloc_empty_file_noaccount): before Linux 6.5 an overlay opens the layer's file in this
 * way, with the overlay's path (open_with_fake_path), as an existing file. */
SEC("lsm/file_open")
int BPF_PROG(toolguard_file_open, struct file *file)
{
	struct label *l = confined();

	if (!l)
		return unconfined(-EACCES);
	if (!on_behalf())
		l->writes = 0; /* see below */
	if (file->f_flags & FMODE_EXEC || file->f_mode & FMODE_NOACCOUNT)
		return 0;
	if (file->f_flags & O_TMPFILE && file->f_inode->i_mode & (S_ISUID | S_ISGID))
		return never_made(l, OP_OPEN, WHY_ALWAYS, EPERM, file->f_path.mnt, file->f_path.dentry);
	u32 need = opened(file);
	set_target(l, 0, file->f_path.mnt, file->f_path.dentry);
	if (!is_allowed(l, need) && check(l, OP_OPEN, need))
		return -EACCES;
	return exceeds(l, file->f_inode, OP_OPEN, need) ? -EACCES : 0;
}

/*
 * security_file_receive: __receive_fd, for descriptors received over a unix socket, by pidfd_getfd, or from a seccomp supervisor. An
 * unconfined process may have opened the file, so it's decided about as if it were opened now; O_PATH needs nothing, as in open.
 * Sockets have no path: the session's own are allowed, as are connected unix sockets. Any other socket would give the session the
 * network access of the process that made it.
 */
SEC("lsm/file_receive")
int BPF_PROG(toolguard_file_receive, struct file *file)
{
	struct label *l = confined();
	struct socket *sock;

	if (!l)
		return unconfined(-EACCES);
	sock = bpf_sock_from_file(file);
	if (sock)
		return receive_socket(l, sock->sk);
	u32 need = opened(file);
	if (file->f_mode & FMODE_CREATED)
		need |= CAP_CREATE;
	return need ? allow(l, OP_RECEIVE, file->f_path.mnt, file->f_path.dentry, need) : 0;
}

/* security_path_truncate: vfs_truncate (truncate(2)); before Linux 6.2 also ftruncate, and O_TRUNC (handle_truncate). Since then these
 * two call security_file_truncate, which needs no program: ftruncate needs a descriptor that is open for writing, and file_open
 * decides about O_TRUNC. */
SEC("lsm/path_truncate")
int BPF_PROG(toolguard_path_truncate, const struct path *path)
{
	struct label *l = confined();

	if (!l)
		return unconfined(-EACCES);
	if (allow(l, OP_TRUNCATE, path->mnt, path->dentry, CAP_UPDATE))
		return -EACCES;
	return exceeds(l, path->dentry->d_inode, OP_TRUNCATE, CAP_UPDATE) ? -EACCES : 0;
}

/* security_path_chmod: chmod_common, so every chmod by path or descriptor. */
SEC("lsm/path_chmod")
int BPF_PROG(toolguard_path_chmod, const struct path *path)
{
	struct label *l = confined();

	return l ? allow(l, OP_METADATA, path->mnt, path->dentry, CAP_UPDATE) : unconfined(-EACCES);
}

/* security_path_chown: chown_common. */
SEC("lsm/path_chown")
int BPF_PROG(toolguard_path_chown, const struct path *path)
{
	struct label *l = confined();

	return l ? allow(l, OP_METADATA, path->mnt, path->dentry, CAP_UPDATE) : unconfined(-EACCES);
}

/* security_path_notify: inotify_find_inode, fanotify_find_path, fcntl_dirnotify. A watch shows the names in a folder. */
SEC("lsm/path_notify")
int BPF_PROG(toolguard_path_notify, const struct path *path)
{
	struct label *l = confined();

	return l ? allow(l, OP_WATCH, path->mnt, path->dentry, CAP_READ) : unconfined(-EACCES);
}

/*
 * The hooks for times, extended attributes, ACLs and file flags get a dentry and no mount. But each system call that changes them
 * first calls mnt_want_write or mnt_want_write_file with the mount of the named path (vfs_utimes, setxattr and its variants,
 * do_set_acl, ioctl_setflags, file_setattr). The label stores that mount until the task opens a file, which may change metadata of
 * an overlay's layers without that call (ovl_copy_up_flags).
 *
 * Neither program is an LSM program: the kernel skips it where it's already running on that CPU, so two copies are attached. If both
 * are skipped, the stored mount is that of an earlier call, and nothing is allowed unless the dentry is beneath it.
 */
SEC("fentry/mnt_want_write")
int BPF_PROG(toolguard_mnt_want_write, struct vfsmount *mnt)
{
	struct label *l = labelled();

	if (l)
		l->writes = (u64)mnt;
	return 0;
}

SEC("fentry/mnt_want_write_file")
int BPF_PROG(toolguard_mnt_want_write_file, struct file *file)
{
	struct label *l = labelled();

	if (l)
		l->writes = (u64)file->f_path.mnt;
	return 0;
}

/* metadata checks update on a dentry beneath the mount that the task is writing to. */
static __always_inline int metadata(u64 dentry)
{
	struct label *l = confined();

	if (!l)
		return unconfined(-EACCES);
	struct super_block *sb = LOAD(struct dentry, dentry, d_sb);
	if (LOAD(struct vfsmount, l->writes, mnt_sb) != sb && on_behalf())
		return 0;
	return allow(l, OP_METADATA, (struct vfsmount *)l->writes, (struct dentry *)dentry, CAP_UPDATE);
}

#define ATTR_TIMES_SET (1 << 16)
#define ATTR_TOUCH (1 << 17)

/* security_inode_setattr: notify_change. Only vfs_utimes sets one of these two bits. Other hooks decide about mode, owner and size;
 * all other changes are the kernel's own. Later kernels pass the mount's id mapping before the dentry. */
SEC("lsm/inode_setattr")
int toolguard_inode_setattr(u64 *ctx)
{
	u64 n = bpf_get_func_arg_cnt(ctx), dentry = 0, attr = 0;

	if (bpf_get_func_arg(ctx, n - 2, &dentry) || bpf_get_func_arg(ctx, n - 1, &attr))
		return -EACCES;
	return LOAD(struct iattr, attr, ia_valid) & (ATTR_TIMES_SET | ATTR_TOUCH) ? metadata(dentry) : 0;
}

/* attribute is metadata for a possible ACL. An ACL can make a setgid file executable and leave it setgid (posix_acl_update_mode), after
 * its content was written while its group could not execute it. */
static __always_inline int attribute(u64 dentry)
{
	struct denial d = { .op = OP_METADATA, .why = WHY_ALWAYS, .error = EPERM, .paths = 1 };
	struct label *l = confined();
	u32 mode = LOAD(struct inode, LOAD(struct dentry, dentry, d_inode), i_mode);

	if (!l || (mode & S_IFMT) != S_IFREG || !(mode & (S_ISUID | S_ISGID)))
		return metadata(dentry);
	set_target(l, 0, (struct vfsmount *)l->writes, (struct dentry *)dentry);
	decide(l, 0, 0); /* the event reports it, too */
	deny(l, &d);
	return -EPERM;
}

/* security_inode_setxattr: __vfs_setxattr_locked; before Linux 6.2 for ACLs, too. */
SEC("lsm/inode_setxattr")
int BPF_PROG(toolguard_inode_setxattr, void *ids, struct dentry *dentry)
{
	return attribute((u64)dentry);
}

/* security_inode_removexattr: __vfs_removexattr_locked. */
SEC("lsm/inode_removexattr")
int BPF_PROG(toolguard_inode_removexattr, void *ids, struct dentry *dentry)
{
	return metadata((u64)dentry);
}

/* security_inode_set_acl: vfs_set_acl, since Linux 6.2. */
SEC("lsm/inode_set_acl")
int BPF_PROG(toolguard_inode_set_acl, void *ids, struct dentry *dentry)
{
	return attribute((u64)dentry);
}

/* security_inode_remove_acl: vfs_remove_acl, since Linux 6.2. */
SEC("lsm/inode_remove_acl")
int BPF_PROG(toolguard_inode_remove_acl, void *ids, struct dentry *dentry)
{
	return metadata((u64)dentry);
}

/* security_inode_file_setattr: vfs_fileattr_set, since Linux 6.17: flags and project, by ioctl or file_setattr. */
SEC("lsm/inode_file_setattr")
int BPF_PROG(toolguard_inode_file_setattr, struct dentry *dentry)
{
	return metadata((u64)dentry);
}

/*
 * The address of the path that a system call looks up: readlink's hook gets no mount either, and the call has stored it there by
 * then. Before Linux 6.11 readlink calls user_path_at_empty, into which the compiler may inline filename_lookup.
 */
SEC("fentry/filename_lookup")
int BPF_PROG(toolguard_filename_lookup, int dir, void *name, unsigned int flags, struct path *path)
{
	struct label *l = labelled();

	if (l)
		l->looking = (u64)path;
	return 0;
}

SEC("fentry/user_path_at_empty")
int BPF_PROG(toolguard_user_path_at_empty, int dir, const char *name, unsigned int flags, struct path *path)
{
	struct label *l = labelled();

	if (l)
		l->looking = (u64)path;
	return 0;
}

/* in_readlink reports whether the system call is readlink or readlinkat. */
static __always_inline bool in_readlink(void)
{
	u64 regs = (u64)bpf_task_pt_regs(bpf_get_current_task_btf());

	if (ON_AMD64) {
		u64 nr = LOAD(struct pt_regs___amd64, regs, orig_ax);
		return nr == 89 || nr == 267;
	}
	return !bpf_core_field_exists(struct pt_regs___arm64, syscallno) || LOAD(struct pt_regs___arm64, regs, syscallno) == 78;
}

/*
 * security_inode_readlink: do_readlinkat (readlink and readlinkat), for the link that was looked up; and vfs_get_link, by which an
 * overlay or ecryptfs reads a link of its layer, to follow it or after the decision about the upper link. Following a link needs
 * nothing. ecryptfs reads with the task's own credentials, so that its read for readlink can't be distinguished from one of a link
 * whose path is unknown.
 */
SEC("lsm/inode_readlink")
int BPF_PROG(toolguard_inode_readlink, struct dentry *dentry)
{
	struct label *l = confined();

	if (on_behalf() || !in_readlink())
		return 0;
	if (!l)
		return unconfined(-EACCES);
	u64 at = l->looking;
	l->looking = 0;
	struct vfsmount *mnt = LOAD(struct path, at, dentry) == dentry ? LOAD(struct path, at, mnt) : NULL;
	return allow(l, OP_READLINK, mnt, dentry, CAP_READ);
}
