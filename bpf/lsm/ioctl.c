/* SPDX-License-Identifier: Apache-2.0 */
/* ioctl: commands that change a file, copy or delete a tree, or insert input into a terminal. */

#define TIOCSTI 0x5412
#define USERFAULTFD_IOC_NEW 0xaa00 /* of /dev/userfaultfd, since Linux 6.1 */
#define TIOCLINUX 0x541c
#define IOC_TYPE(cmd) ((cmd) >> 8 & 0xff)

/* only_reads reports whether an ioctl changes nothing of a file or folder. */
static __always_inline bool only_reads(u32 cmd)
{
	switch (cmd) {
	case 1: /* FIBMAP */
	case 2: /* FIGETBSZ */
	case 0x80086601: /* FS_IOC_GETFLAGS */
	case 0x80046601: /* FS_IOC32_GETFLAGS */
	case 0x801c581f: /* FS_IOC_FSGETXATTR */
	case 0x80087601: /* FS_IOC_GETVERSION */
	case 0x80047601: /* FS_IOC32_GETVERSION */
	case 0xc020660b: /* FS_IOC_FIEMAP */
	case 0xc0686611: /* PROCMAP_QUERY */
		return true;
	}
	return IOC_TYPE(cmd) == 'T'; /* for terminals and descriptors: isatty tries it on every file */
}

/* moves_trees reports whether an ioctl creates or deletes a tree with all its files, or copies any file: a snapshot has the files that
 * a rule denies, at paths that no rule is about. */
static __always_inline bool moves_trees(u32 cmd)
{
	switch (cmd & 0xffff) { /* type and number */
	case 0x9401: /* BTRFS_IOC_SNAP_CREATE */
	case 0x940e: /* BTRFS_IOC_SUBVOL_CREATE */
	case 0x940f: /* BTRFS_IOC_SNAP_DESTROY */
	case 0x9417: /* BTRFS_IOC_SNAP_CREATE_V2 */
	case 0x9418: /* BTRFS_IOC_SUBVOL_CREATE_V2 */
	case 0x943f: /* BTRFS_IOC_SNAP_DESTROY_V2 */
	case 0x6f04: /* OCFS2_IOC_REFLINK, with two paths as arguments */
	case 0xbc10: /* BCH_IOCTL_SUBVOLUME_CREATE */
	case 0xbc11: /* BCH_IOCTL_SUBVOLUME_DESTROY */
		return true;
	}
	return false;
}

/* ioctl decides for both hooks below. A file system's own commands may change a file through a descriptor that is open for reading
 * (FS_IOC_SETFLAGS), for which open decided nothing about writing. A device's commands are allowed to a task that could open it,
 * except inserting input into a terminal. */
static __always_inline int ioctl(struct file *file, u32 cmd)
{
	struct label *l = confined();

	if (!l)
		return unconfined(-EACCES);
	if (cmd == TIOCSTI || cmd == TIOCLINUX || cmd == USERFAULTFD_IOC_NEW || moves_trees(cmd)) {
		struct denial d = { .op = OP_IOCTL, .why = WHY_ALWAYS, .detail = cmd, .error = EPERM, .paths = 1 };
		set_target(l, 0, file->f_path.mnt, file->f_path.dentry);
		decide(l, 0, 0); /* the event reports it, too */
		deny(l, &d);
		return -EPERM;
	}
	if (owns_by_ioctl(cmd) && may_own(file, l, OP_IOCTL, cmd))
		return -ENOMEM;
	u32 type = file->f_inode->i_mode & S_IFMT;
	if ((type != S_IFREG && type != S_IFDIR) || file->f_mode & FMODE_WRITE || only_reads(cmd))
		return 0;
	struct denial d = { .op = OP_IOCTL, .need = CAP_UPDATE, .detail = cmd, .error = EACCES, .paths = 1 };
	set_target(l, 0, file->f_path.mnt, file->f_path.dentry);
	d.why = decide(l, 0, CAP_UPDATE);
	if (!d.why)
		return 0;
	deny(l, &d);
	return -EACCES;
}

/* security_file_ioctl: ioctl(2). */
SEC("lsm/file_ioctl")
int BPF_PROG(toolguard_file_ioctl, struct file *file, unsigned int cmd)
{
	return ioctl(file, cmd);
}

/* security_file_ioctl_compat: ioctl(2) of 32-bit calls (since Linux 6.8 and 6.1.75; before, they come by file_ioctl). */
SEC("lsm/file_ioctl_compat")
int BPF_PROG(toolguard_file_ioctl_compat, struct file *file, unsigned int cmd)
{
	return ioctl(file, cmd);
}
