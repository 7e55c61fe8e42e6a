/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the matcher on files that the calling process has open, for the tests of internal/loader. It needs no hook, so that it runs
 * also on kernels without BPF LSM.
 */
#include "../lib/vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "../lib/match.h"

struct question {
	u32 fd, need, hot, rounds;
	u32 thread, opened; /* the thread that opens fd, and how often */
};

struct work {
	struct question q;
	struct target t;
	struct walk c;
	struct match m;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct work);
} works SEC(".maps");

__noinline int ask_hot(struct work *w)
{
	if (w)
		match(&w->c, &w->m, &w->t, w->q.need, true);
	return 0;
}

static long ask_once(u32 i, void *ctx)
{
	struct work *w = *(struct work **)ctx;
	struct attempt a = { .c = &w->c, .m = &w->m, .t = &w->t, .need = w->q.need };

	w->c.work = 0;
	if (w->q.hot)
		ask_hot(w);
	else
		attempt_step(0, &a);
	return 0;
}

SEC("raw_tp")
int ask(void *ctx)
{
	u32 zero = 0;
	struct work *w = bpf_map_lookup_elem(&works, &zero);
	struct task_struct *task = (void *)bpf_get_current_task();
	struct file **files, *file = NULL;
	u64 key = (u64)BPF_CORE_READ(task, group_leader);
	struct member m = { .session = ~0ULL };

	if (!w)
		return 1;
	files = BPF_CORE_READ(task, files, fdt, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + w->q.fd);
	w->t.mnt = (u64)BPF_CORE_READ(file, f_path.mnt);
	w->t.dentry = (u64)BPF_CORE_READ(file, f_path.dentry);
	w->c.image = 0;
	w->c.mount_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	w->c.session = m.session;
	bpf_map_update_elem(&members, &key, &m, BPF_ANY);
	bpf_loop(w->q.rounds, ask_once, &w, 0);
	return 0;
}

/* When the measured thread gets the descriptor, decides about the last file again, which is the one that it opens: this measures
 * decisions among real opens on kernels without BPF LSM. With rounds == 0 it decides nothing. */
SEC("raw_tp/sys_exit")
int opened(u64 *ctx)
{
	u32 zero = 0;
	struct work *w = bpf_map_lookup_elem(&works, &zero);

	if (!w || (u32)bpf_get_current_pid_tgid() != w->q.thread || ctx[1] != w->q.fd)
		return 0;
	w->q.opened++;
	w->c.work = 0;
	if (w->q.rounds)
		ask_hot(w);
	return 0;
}

char _license[] SEC("license") = "GPL";
