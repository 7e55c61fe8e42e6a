/* SPDX-License-Identifier: Apache-2.0 */
/* Every task of every session, by its address. */
#ifndef TOOLGUARD_MEMBER_H
#define TOOLGUARD_MEMBER_H

#include "dentry.h"

/*
 * members has every task of every session by its address, for two programs that can't read the label: the one that finds the
 * process of a folder in /proc, since the kernel returns storage for trusted task pointers only; and the one that counts a task
 * as it's freed, possibly in an interrupt: before Linux 6.2 there is no label if the interrupted code was inside the lookup
 * (bpf_task_storage_trylock, kernel/bpf/bpf_task_storage.c).
 */
struct member {
	u64 session; /* 0: left */
	u32 slot;
	u16 session_thread; /* as in its label */
	u16 exited;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, u64);
	__type(value, struct member);
} members SEC(".maps");

/* is_own reports whether an entry of /proc is the folder of one of the session's processes. Policies and events call each of
 * them "self". */
__noinline bool is_own(struct walk *c, u64 dentry)
{
	if (!c)
		return false;
	u64 inode = (u64)LOAD(struct dentry, dentry, d_inode);
	u64 pid = (u64)LOAD(struct proc_inode, inode - bpf_core_field_offset(struct proc_inode, vfs_inode), pid);
	u64 first = (u64)LOAD(struct pid, pid, tasks[PIDTYPE_TGID].first);
	u64 task = first - bpf_core_field_offset(struct task_struct, pid_links[PIDTYPE_TGID]);
	struct member *m = first ? bpf_map_lookup_elem(&members, &task) : NULL;

	return m && m->session == c->session && !m->session_thread;
}

#endif
