/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there: opened, truncated, their metadata changed. */

#define FMODE_READ 0x1
#define FMODE_WRITE 0x2
#define FMODE_EXEC 0x20		/* in f_flags: the kernel opens it to execute it; exec.c decides */
#define FMODE_CREATED 0x100000
#define O_ACCMODE 3
#define O_TMPFILE 020000000

/* security_file_open: do_dentry_open, so every open but O_PATH, by whichever call. The name of a file that is created by
 * it has been through path_mknod. An unnamed file (O_TMPFILE) hasn't: it's created here, beneath its folder. */
SEC("lsm/file_open")
int BPF_PROG(toolguard_file_open, struct file *file)
{
	struct label *l = guarded();
	u32 need = 0;

	if (!l || file->f_flags & FMODE_EXEC)
		return 0;
	if (file->f_mode & FMODE_READ)
		need |= CAP_READ;
	if (file->f_mode & FMODE_WRITE && !(file->f_mode & FMODE_CREATED))
		need |= CAP_UPDATE;
	if ((file->f_flags & O_ACCMODE) == O_ACCMODE) /* neither: for ioctl */
		need |= CAP_READ | CAP_UPDATE;
	if (file->f_flags & O_TMPFILE)
		need = (need & ~CAP_UPDATE) | CAP_CREATE;
	aim(l, 0, file->f_path.mnt, file->f_path.dentry);
	return given(l, need) || !permit(l, OP_OPEN, need) ? 0 : -EACCES;
}

/* truncate(2), and O_TRUNC before Linux 6.2. */
SEC("lsm/path_truncate")
int BPF_PROG(toolguard_path_truncate, const struct path *path)
{
	struct label *l = guarded();

	return l ? allow(l, OP_TRUNCATE, path->mnt, path->dentry, CAP_UPDATE) : 0;
}
