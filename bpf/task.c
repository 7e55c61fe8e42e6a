/* SPDX-License-Identifier: Apache-2.0 */
/* The label's way through a session: from the thread that starts it to everything that comes of it. */

#define CLONE_THREAD 0x10000

/* security_task_alloc: copy_process, before anybody can see the new task. io_uring's workers come through here too. A
 * task that can't be labelled isn't made. A child of toolguard's own thread is the command: what is inside is only that
 * thread, which shares toolguard's memory. */
SEC("lsm/task_alloc")
int BPF_PROG(toolguard_task_alloc, struct task_struct *task, unsigned long clone_flags)
{
	struct label *l = guarded(), *child;
	struct session *s;

	if (!l)
		return 0;
	s = session_of(l);
	if (s && s->flags & SESSION_ENDING)
		return -EPERM;
	child = bpf_task_storage_get(&labels, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!child)
		return -ENOMEM;
	child->id = l->id;
	child->slot = l->slot;
	child->inside = l->inside && clone_flags & CLONE_THREAD;
	count(child, 1);
	return 0;
}

SEC("lsm/task_free")
int BPF_PROG(toolguard_task_free, struct task_struct *task)
{
	struct label *l = bpf_task_storage_get(&labels, task, NULL, 0);

	if (l)
		count(l, -1);
	return 0;
}
