/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: how a label passes from the thread that starts a session to every task after it, and what tasks may do to other tasks:
 * anything to those of their own session, nothing to any other. */

#define CLONE_THREAD 0x10000

/* security_task_alloc: copy_process, before the new task is visible. io_uring's workers come here, too. If a task can't be labelled,
 * the fork fails. A child of the session thread is the command, and an ordinary task: only the thread itself shares toolguard's
 * memory. */
SEC("lsm/task_alloc")
int BPF_PROG(toolguard_task_alloc, struct task_struct *task, unsigned long clone_flags)
{
	struct label *l = confined(), *child;
	struct session *s;
	u64 key = (u64)task;

	if (!l)
		return unconfined(-EPERM);
	s = session_of(l);
	if (!s || s->flags & SESSION_ENDING)
		return -EPERM;
	struct member m = { .session = l->id, .slot = l->slot, .session_thread = clone_flags & CLONE_THREAD ? l->session_thread : 0 };
	if (bpf_map_update_elem(&members, &key, &m, BPF_ANY))
		return -ENOMEM;
	count(m.slot, m.session, 1, 1); /* and -1 in task_free, which is called also when the fork fails later */
	child = bpf_task_storage_get(&labels, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!child)
		return -ENOMEM;
	child->id = m.session;
	child->slot = m.slot;
	child->session_thread = m.session_thread;
	return 0;
}

/*
 * trace_sched_process_exit: do_exit. The task runs no more code of its own; the kernel only releases its resources. For a client that
 * waits for the session's end, the session has ended now: security_task_free is called an RCU grace period later, and never for an
 * unreaped process.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(toolguard_sched_process_exit)
{
	u64 key = bpf_get_current_task();
	struct member *m;

	if (!bpf_get_current_task_btf()->bpf_storage) /* most tasks have none */
		return 0;
	m = bpf_map_lookup_elem(&members, &key);
	if (!m || !m->session || m->exited)
		return 0;
	m->exited = 1;
	count(m->slot, m->session, 0, -1);
	return 0;
}

/* security_task_free: __put_task_struct, mostly in an interrupt; security_task_alloc, when that fails. On some kernels an entry can't be
 * deleted in an interrupt: it's then marked as belonging to no session. */
SEC("lsm/task_free")
int BPF_PROG(toolguard_task_free, struct task_struct *task)
{
	u64 key = (u64)task;
	struct member *m = bpf_map_lookup_elem(&members, &key);

	if (!m || !m->session)
		return 0;
	count(m->slot, m->session, -1, m->exited ? 0 : -1);
	m->session = 0;
	bpf_map_delete_elem(&members, &key);
	return 0;
}

/* belongs reports whether a task belongs to the session. The session thread doesn't, for the session's other tasks. */
static __always_inline bool belongs(u64 session, struct task_struct *task)
{
	struct member *m = member(task);

	return m && m->session == session && !m->session_thread;
}

/* reach decides about an operation on another task. A process may do anything to itself: the session thread may signal the threads of
 * toolguard. The session thread sends its signals to all processes, to reach the session's: so its denials aren't reported, except
 * to an outer session. */
static __always_inline int reach(struct task_struct *task, u32 op, u32 detail)
{
	struct label *l = confined();

	if (!l)
		return unconfined(-EPERM);
	if (task->tgid == bpf_get_current_pid_tgid() >> 32 || belongs(l->id, task))
		return 0;
	struct denial d = { .op = op, .why = WHY_OUTSIDE, .detail = detail, .other = task->tgid, .error = EPERM };
	if (l->session_thread != STARTS || op != OP_SIGNAL)
		deny(l, &d);
	return -EPERM;
}

/* security_task_kill: check_kill_permission, for the signals of tasks (kill, tgkill, sigqueue, pidfd_send_signal, mq_notify), once for
 * each member of a group; signal 0, too. The kernel's own signals aren't checked, except USB's (kill_pid_usb_asyncio), which the
 * kernel sends with the credentials of the process that requested it. */
SEC("lsm/task_kill")
int BPF_PROG(toolguard_task_kill, struct task_struct *task, void *info, int sig)
{
	u64 cred = 0;

	/* As an argument it's a pointer that the verifier assumes to be valid, and it would remove the check. */
	bpf_get_func_arg(ctx, 3, &cred);
	return cred ? 0 : reach(task, OP_SIGNAL, sig);
}

/*
 * Two tasks that trace each other with PTRACE_O_TRACEEXIT can't be killed: a killed tracee waits for its tracer, and Linux drops any
 * further SIGKILL. So a circle of tracers is denied. A task that traces a process older than its own may never be traced, and
 * every circle would have a task that is both. The kernel attaches only after the hook, so that the attempt counts, for good: a task
 * is TRACED or traces UPWARD, and never changes to the other.
 */
enum { TRACED = 1, UPWARD };

static __always_inline bool circles(struct task_struct *tracer, struct task_struct *tracee)
{
	struct label *by = bpf_task_storage_get(&labels, tracer, NULL, 0), *of = bpf_task_storage_get(&labels, tracee, NULL, 0);

	if (!by || !of || __sync_val_compare_and_swap(&of->traces, 0, TRACED) == UPWARD)
		return true;
	if (tracer->group_leader->start_boottime < tracee->group_leader->start_boottime)
		return false;
	/* No hook is called for a task that is traced from its fork (PTRACE_O_TRACEFORK). */
	return tracer->ptrace || __sync_val_compare_and_swap(&by->traces, 0, UPWARD) == TRACED;
}

/* trace decides whether a task may trace another one of its session. */
static __always_inline int trace(struct task_struct *tracer, struct task_struct *tracee, u32 mode)
{
	struct label *l = confined();
	struct denial d = { .op = OP_TRACE, .why = WHY_ALWAYS, .detail = mode, .error = EPERM };

	if (!l)
		return unconfined(-EPERM);
	if (!circles(tracer, tracee))
		return 0;
	d.other = tracer->tgid == bpf_get_current_pid_tgid() >> 32 ? tracee->tgid : tracer->tgid;
	deny(l, &d);
	return -EPERM;
}

#define PTRACE_MODE_ATTACH 2
#define PTRACE_MODE_NOAUDIT 4
#define PTRACE_MODE_REALCREDS 16

/* security_ptrace_access_check: __ptrace_may_access, for another process: ptrace, /proc/PID/mem, environ, fd and more,
 * process_vm_readv and _writev, pidfd_getfd, kcmp. With PTRACE_MODE_NOAUDIT the kernel only asks what to omit from a listing. */
SEC("lsm/ptrace_access_check")
int BPF_PROG(toolguard_ptrace_access_check, struct task_struct *child, unsigned int mode)
{
	struct label *l = confined();

	if (l && mode & PTRACE_MODE_NOAUDIT)
		return belongs(l->id, child) ? 0 : -EPERM;
	int err = reach(child, OP_TRACE, mode);
	if (err || !(mode & PTRACE_MODE_ATTACH && mode & PTRACE_MODE_REALCREDS))
		return err;
	return trace(bpf_get_current_task_btf(), child, mode);
}

/* security_ptrace_traceme: PTRACE_TRACEME, by which a task has its parent trace it. A confined parent never traces an unconfined child. */
SEC("lsm/ptrace_traceme")
int BPF_PROG(toolguard_ptrace_traceme, struct task_struct *parent)
{
	if (!confined() && member(parent))
		return -EPERM;
	int err = reach(parent, OP_TRACE, 0);
	return err ? err : trace(parent, bpf_get_current_task_btf(), 0);
}

/* security_task_setnice: set_one_prio (setpriority). nice and autogroup change the task itself only. */
SEC("lsm/task_setnice")
int BPF_PROG(toolguard_task_setnice, struct task_struct *task)
{
	return reach(task, OP_PRIORITY, PRIORITY_NICE);
}

/* security_task_setioprio: set_task_ioprio. */
SEC("lsm/task_setioprio")
int BPF_PROG(toolguard_task_setioprio, struct task_struct *task)
{
	return reach(task, OP_PRIORITY, PRIORITY_IO);
}

/* security_task_setscheduler: __sched_setscheduler, sched_setaffinity, timerslack_ns in /proc. */
SEC("lsm/task_setscheduler")
int BPF_PROG(toolguard_task_setscheduler, struct task_struct *task)
{
	return reach(task, OP_PRIORITY, PRIORITY_SCHEDULER);
}

/* security_task_setrlimit: do_prlimit. (task_prlimit, which also sees reading a limit, gets no task to decide about.) */
SEC("lsm/task_setrlimit")
int BPF_PROG(toolguard_task_setrlimit, struct task_struct *task)
{
	return reach(task, OP_PRIORITY, PRIORITY_LIMIT);
}

/* security_task_movememory: move_pages, migrate_pages. */
SEC("lsm/task_movememory")
int BPF_PROG(toolguard_task_movememory, struct task_struct *task)
{
	return reach(task, OP_PRIORITY, PRIORITY_MEMORY);
}

/*
 * A file can send signals: its owner gets one, of a chosen number, whenever there is data to read. A task sets the owner and the
 * number long before. So the table has each such file with the session that last set either, and the file's signals reach only
 * that session's tasks.
 */
struct owner {
	u64 session;
	u64 payer; /* the session that the entry counts for: the file's first */
	u32 slot, payer_slot;
	u32 uid; /* the user that the entry counts for: the session's owner, since a session may run as thousands of subordinate uids */
	u32 pad;
};

/* MAX_OWNED limits one session. All sessions together can't exceed the table, so that none uses up another's entries. A file that
 * outlives its session, since a process outside has it open, stays in the table and counts only for its user. A user's limit is that
 * of as many sessions as toolguardd permits a user by default. */
#define MAX_OWNED 256
#define MAX_OWNED_BY_USER (MAX_SESSIONS * MAX_OWNED / 4)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_SESSIONS * MAX_OWNED);
	__type(key, u64); /* the struct file */
	__type(value, struct owner);
} owned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u32); /* a user */
	__type(value, u32);
} owners SEC(".maps");

volatile u32 nowned; /* at 0, files of the whole machine skip the lookup */

static __always_inline void disown(u64 file)
{
	struct owner *o = nowned ? bpf_map_lookup_elem(&owned, &file) : NULL;

	if (!o)
		return;
	struct session *payer = session_at(o->payer_slot, o->payer);
	u32 *all = bpf_map_lookup_elem(&owners, &o->uid);
	if (bpf_map_delete_elem(&owned, &file))
		return;
	__sync_fetch_and_add(&nowned, -1);
	if (all)
		__sync_fetch_and_add(all, -1);
	if (payer)
		__sync_fetch_and_add(&payer->owned, -1);
}

/* owned_by is the number of entries of a user's sessions; NULL if it can't be counted. */
static __always_inline u32 *owned_by(u32 uid)
{
	u32 none = 0;

	bpf_map_update_elem(&owners, &uid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&owners, &uid);
}

/* own adds a file to the table; false: the session or its user has reached the limit. */
static __always_inline bool own(struct file *file, struct label *l)
{
	struct owner o = { .session = l->id, .payer = l->id, .slot = l->slot, .payer_slot = l->slot };
	u64 key = (u64)file;
	struct owner *old = bpf_map_lookup_elem(&owned, &key);
	struct session *s = session_of(l);

	if (!s)
		return false;
	if (old) {
		o.payer = old->payer;
		o.payer_slot = old->payer_slot;
		o.uid = old->uid;
		return !bpf_map_update_elem(&owned, &key, &o, BPF_EXIST);
	}
	o.uid = s->user;
	u32 *all = owned_by(o.uid);
	if (!all)
		return false;
	bool session = __sync_fetch_and_add(&s->owned, 1) < MAX_OWNED;
	bool user = __sync_fetch_and_add(all, 1) < MAX_OWNED_BY_USER;
	if (session && user && !bpf_map_update_elem(&owned, &key, &o, BPF_NOEXIST)) {
		__sync_fetch_and_add(&nowned, 1);
		return true;
	}
	__sync_fetch_and_add(&s->owned, -1);
	__sync_fetch_and_add(all, -1);
	return false;
}

/* may_own decides whether a file may be made to send signals: 0, or -ENOMEM, for the hook. */
static __always_inline int may_own(struct file *file, struct label *l, u32 op, u32 cmd)
{
	struct denial d = { .op = op, .why = WHY_FILES, .detail = cmd, .error = ENOMEM };

	if (own(file, l))
		return 0;
	deny(l, &d);
	return -ENOMEM;
}

#define F_SETFL 4
#define F_SETOWN 8
#define F_SETSIG 10
#define F_SETOWN_EX 15
#define F_SETLEASE 1024
#define F_NOTIFY 1026
#define F_SETDELEG 1040
#define O_ASYNC 020000
#define FIOASYNC 0x5452
#define FIOSETOWN 0x8901
#define SIOCSPGRP 0x8902

static __always_inline bool owns_by_ioctl(u32 cmd)
{
	return cmd == FIOASYNC || cmd == FIOSETOWN || cmd == SIOCSPGRP;
}

/* O_ASYNC makes the foreground process group the owner of a terminal (tty_fasync). Watches and leases make the process the owner of a
 * file without one. */
static __always_inline bool owns_by_fcntl(u32 cmd, u64 arg)
{
	switch (cmd) {
	case F_SETOWN:
	case F_SETOWN_EX:
	case F_SETSIG:
	case F_NOTIFY:
	case F_SETLEASE:
	case F_SETDELEG:
		return true;
	}
	return cmd == F_SETFL && arg & O_ASYNC;
}

/* security_file_fcntl: fcntl(2), before it's done. */
SEC("lsm/file_fcntl")
int BPF_PROG(toolguard_file_fcntl, struct file *file, unsigned int cmd, unsigned long arg)
{
	struct label *l = confined();

	if (l)
		return owns_by_fcntl(cmd, arg) ? may_own(file, l, OP_SIGNAL, cmd) : 0;
	int error = unconfined(-EACCES);
	if (!error && (cmd == F_SETOWN || cmd == F_SETOWN_EX))
		disown((u64)file);
	return error;
}

/* security_file_free: the last close of a file. It runs for every file of the machine, so it isn't an LSM program, which costs more. The
 * kernel skips it where it's already running on that CPU, so that an entry may stay. It counts until the next file at that address is
 * closed or gets an owner by F_SETOWN, and that file's signals reach only the session. */
SEC("fentry/security_file_free")
int BPF_PROG(toolguard_security_file_free, struct file *file)
{
	disown((u64)file);
	return 0;
}

/* file_of is the file of an owner. Linux 6.12 moved the owner out of struct file and gave it a pointer to the file. */
static __always_inline u64 file_of(struct fown_struct *fown)
{
	if (bpf_core_field_exists(fown->file))
		return (u64)fown->file;
	return (u64)fown - bpf_core_field_offset(struct file___embedded, f_owner);
}

/* security_file_send_sigiotask: sigio_perm, for SIGIO, the signal of F_SETSIG, and SIGURG. The current task is unrelated, often in an
 * interrupt: so the denial is counted and not reported. */
SEC("lsm/file_send_sigiotask")
int BPF_PROG(toolguard_file_send_sigiotask, struct task_struct *task, struct fown_struct *fown, int sig)
{
	u64 key = file_of(fown);
	struct owner *o = nowned ? bpf_map_lookup_elem(&owned, &key) : NULL;

	if (!o || belongs(o->session, task))
		return 0;
	u32 slot = o->slot;
	struct session *s = bpf_map_lookup_elem(&sessions, &slot);
	if (s && s->id == o->session) {
		__sync_fetch_and_add(&s->denied, 1);
		__sync_fetch_and_add(&s->suppressed, 1);
	}
	return -EPERM;
}
