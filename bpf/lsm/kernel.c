/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that no session may do, whatever its policy grants: change mounts, on which every decision about a path depends, and
 * change the kernel. Where a policy may allow one by the name of its system call, the session has a flag for it. The seccomp filter
 * is the first boundary, these hooks are the second. Calls that the filter sees completely and that can't harm toolguard (keyrings,
 * the clock, the log) have no hook here.
 */

static __always_inline int never(u32 op, u32 detail, u32 unless)
{
	struct label *l = confined();

	if (!l)
		return unconfined(-EPERM);
	struct session *s = session_of(l);
	if (s && s->flags & unless)
		return 0;
	struct denial d = { .op = op, .why = WHY_ALWAYS, .detail = detail, .error = EPERM };
	deny(l, &d);
	return -EPERM;
}

/* security_sb_mount: path_mount (mount(2)), all operations. */
SEC("lsm/sb_mount")
int BPF_PROG(toolguard_sb_mount)
{
	return never(OP_MOUNT, MOUNT_MOUNT, 0);
}

/* security_move_mount: move_mount(2), which also attaches what fsmount and open_tree prepared. */
SEC("lsm/move_mount")
int BPF_PROG(toolguard_move_mount)
{
	return never(OP_MOUNT, MOUNT_MOVE, 0);
}

/* security_sb_umount: do_umount. */
SEC("lsm/sb_umount")
int BPF_PROG(toolguard_sb_umount)
{
	return never(OP_MOUNT, MOUNT_UNMOUNT, 0);
}

/* security_sb_remount: reconfigure_super, by fspick and fsconfig; mount(2) comes by sb_mount first. */
SEC("lsm/sb_remount")
int BPF_PROG(toolguard_sb_remount)
{
	return never(OP_MOUNT, MOUNT_REMOUNT, 0);
}

/* security_sb_pivotroot: pivot_root(2). */
SEC("lsm/sb_pivotroot")
int BPF_PROG(toolguard_sb_pivotroot)
{
	return never(OP_MOUNT, MOUNT_PIVOT_ROOT, 0);
}

/* security_path_chroot: chroot(2). No decision depends on a task's root, but programs depend on it for their own paths. */
SEC("lsm/path_chroot")
int BPF_PROG(toolguard_path_chroot)
{
	return never(OP_MOUNT, MOUNT_CHROOT, 0);
}

/* security_create_user_ns: create_user_ns, by clone and unshare. */
SEC("lsm/userns_create")
int BPF_PROG(toolguard_userns_create)
{
	return never(OP_NAMESPACE, 0, SESSION_NAMESPACES);
}

/* security_bpf: __sys_bpf, every command: it could detach these programs. Every operation on a map's or a program's descriptor comes
 * here, so that bpf_map and bpf_prog need no program. */
SEC("lsm/bpf")
int BPF_PROG(toolguard_bpf)
{
	return never(OP_KERNEL, KERNEL_BPF, SESSION_BPF);
}

/* security_perf_event_open: perf_event_open(2). */
SEC("lsm/perf_event_open")
int BPF_PROG(toolguard_perf_event_open)
{
	return never(OP_KERNEL, KERNEL_PERF, SESSION_PERF);
}

#define SIGKILL 9

/* security_kernel_module_request: __request_module, when a task's call needs a module that isn't loaded. If a task is killed during
 * execve, the kernel can't read the program, treats it as an unknown format and requests a module (load_elf_binary). Every fatal
 * signal becomes SIGKILL (complete_signal). That isn't the task's request, so it isn't reported. */
SEC("lsm/kernel_module_request")
int BPF_PROG(toolguard_kernel_module_request)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->pending.signal.sig[0] & 1ul << (SIGKILL - 1))
		return confined() ? -EPERM : unconfined(-EPERM);
	return never(OP_KERNEL, KERNEL_MODULE, SESSION_MODULES);
}

#define KERNEL_FIRMWARE 1 /* of enum kernel_read_file_id and kernel_load_data_id, whose later numbers differ by version */

/* security_kernel_read_file: kernel_read_file, for modules (finit_module), other kernels and more. Firmware is read for a
 * device that a task may use. */
SEC("lsm/kernel_read_file")
int BPF_PROG(toolguard_kernel_read_file, struct file *file, u32 id)
{
	return id == KERNEL_FIRMWARE ? 0 : never(OP_KERNEL, KERNEL_CODE, SESSION_MODULES);
}

/* security_kernel_load_data: init_module, kexec_load. */
SEC("lsm/kernel_load_data")
int BPF_PROG(toolguard_kernel_load_data, u32 id)
{
	return id == KERNEL_FIRMWARE ? 0 : never(OP_KERNEL, KERNEL_CODE, SESSION_MODULES);
}

/* security_uring_allowed: io_uring_setup, since Linux 6.15. */
SEC("lsm/uring_allowed")
int BPF_PROG(toolguard_uring_allowed)
{
	return never(OP_KERNEL, KERNEL_IO_URING, SESSION_IO_URING);
}

/* security_uring_sqpoll: io_sq_offload_create, a ring with a kernel thread. */
SEC("lsm/uring_sqpoll")
int BPF_PROG(toolguard_uring_sqpoll)
{
	return never(OP_KERNEL, KERNEL_IO_URING, SESSION_IO_URING);
}

/* security_uring_cmd: io_uring_cmd, the ioctl of io_uring. */
SEC("lsm/uring_cmd")
int BPF_PROG(toolguard_uring_cmd)
{
	return never(OP_KERNEL, KERNEL_IO_URING, SESSION_IO_URING);
}

/* security_uring_override_creds: io_init_req, for a request with credentials that were registered with the ring. */
SEC("lsm/uring_override_creds")
int BPF_PROG(toolguard_uring_override_creds)
{
	return never(OP_KERNEL, KERNEL_IO_URING, 0);
}
