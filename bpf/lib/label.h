/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels: which tasks are confined, and by which session. A task is confined when it has a label. The thread that starts a
 * session gets one (pending), a fork inherits it (task.c), and it's never removed. No cgroup, no namespace and no program
 * name matters.
 */
#ifndef TOOLGUARD_LABEL_H
#define TOOLGUARD_LABEL_H

#include "match.h"
#include "session.h"

enum {
	STARTS = 1,
	STARTS_WITHIN = 2, /* a nested session: the thread belongs to a confined process, which may be any program */
};

/* label is the state of a confined task. It includes the matcher's memory (walk.h has the reason). */
struct label {
	u64 id; /* of its session; another session may use the slot since */
	u32 slot;
	u32 session_thread; /* STARTS or STARTS_WITHIN: toolguard's thread that starts the session and shares toolguard's memory */
	struct {
		u32 record, argc, layer, first;
	} exec[MAX_EXEC]; /* of this execve: the lists that its arguments are compared with (exec_args.c) */
	u64 file, file_end; /* the name by which a program is executed, in the kernel's memory; 0: it has none */
	struct {
		u32 found, denied;
	} listing;
	u32 nexec;
	u32 generation; /* of the policy whose lists are in exec */
	u64 traces;	/* TRACED or UPWARD (task.c) */
	struct {
		u64 start, at, vector; /* vector: the caller's argv; 0: the arguments follow each other */
		u64 called, named;     /* argv[0]: beginning and end */
		u32 argc, count, skip;
		u32 record, layer, first;
		u32 list, names, want, length;
		u32 same, accepted, denied, broken, misfiled;
		u32 kernel; /* the string to compare is in the kernel's memory */
		u32 gathered; /* bytes of text; 0: the arguments are the new process's */
		char text[1024];
	} args;
	u64 asked;  /* the name that a program is executed by, in the kernel's memory */
	u64 writes; /* the mount that the task last asked to write to (file.c) */
	u64 looking; /* where the call stores the path that it looks up (file.c) */
	struct target looked_up; /* by kern_path, last (unix.c) */
	struct target target[2];
	struct match match[2];
	struct walk walk;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct label);
} labels SEC(".maps");

/* pending names the threads that are about to start a session: process in the upper half of the key, thread in the lower.
 * starting is their number: at 0, every other task skips the lookup. */
struct start {
	u64 id;
	u64 from; /* the session that the thread is in until then; the new session's policy includes its policy; 0: none */
	u32 slot;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, u64);
	__type(value, struct start);
} pending SEC(".maps");

volatile u32 starting;

static __always_inline struct session *session_of(struct label *l)
{
	return session_at(l->slot, l->id);
}

/* count changes a session's number of tasks, and its number of living ones. */
static __always_inline void count(u32 slot, u64 id, s32 tasks, s32 living)
{
	struct session *s = session_at(slot, id);

	if (!s)
		return;
	__sync_fetch_and_add(&s->tasks, tasks);
	__sync_fetch_and_add(&s->living, living);
}

/* member is a task's entry in members; NULL: the task is in no session. */
static __always_inline struct member *member(struct task_struct *task)
{
	u64 key = (u64)task;
	struct member *m = bpf_map_lookup_elem(&members, &key);

	return m && m->session ? m : NULL;
}

#define EXITING 4 /* in flags: PF_EXITING, which do_exit sets before its tracepoint */
#define NO_NEW_PRIVS 1 /* in atomic_flags: 1 << PFA_NO_NEW_PRIVS */

/* adopt labels a thread that is about to start a session. The thread must have no_new_privs, since a user's policy must not
 * confine a process with more privileges than the user. The entry in pending stays where the thread can't be labelled, is in
 * another session than the client stated, or its session has ended (the thread may be another one with the same numbers). The
 * client waits for the label, finds none and starts nothing. */
static __noinline struct label *adopt(struct label *l)
{
	u64 key = bpf_get_current_pid_tgid();
	struct start *start = bpf_map_lookup_elem(&pending, &key);

	if (bpf_get_current_task_btf()->flags & EXITING) /* already counted as ended */
		return l;
	if (!start || (!l && member(bpf_get_current_task_btf())) || start->from != (l ? l->id : 0) || !session_at(start->slot, start->id) ||
	    !(bpf_get_current_task_btf()->atomic_flags & NO_NEW_PRIVS))
		return l;
	u64 task = bpf_get_current_task();
	u32 session_thread = start->from ? STARTS_WITHIN : STARTS;
	struct member m = { .session = start->id, .slot = start->slot, .session_thread = session_thread };
	bool new = !l;
	if (new)
		l = bpf_task_storage_get(&labels, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!l)
		return NULL;
	if (bpf_map_update_elem(&members, &task, &m, BPF_ANY)) {
		if (!new)
			return l;
		bpf_task_storage_delete(&labels, bpf_get_current_task_btf());
		return NULL;
	}
	if (!new)
		count(l->slot, l->id, -1, -1);
	l->id = start->id;
	l->slot = start->slot;
	l->session_thread = session_thread;
	bpf_map_delete_elem(&pending, &key);
	count(l->slot, l->id, 1, 1);
	return l;
}

/* labelled is the current task's label, or NULL. Every task's calls come here, and most tasks have no storage of any program:
 * that is checked without a helper call. */
static __always_inline struct label *labelled(void)
{
	struct task_struct *t = bpf_get_current_task_btf();

	return t->bpf_storage ? bpf_task_storage_get(&labels, t, NULL, 0) : NULL;
}

/* confined is the current task's label, NULL for an unconfined task. A thread that starts a session is labelled here. */
static __always_inline struct label *confined(void)
{
	struct label *l = labelled();

	return starting ? adopt(l) : l;
}

/* unlabelled reports whether the current task belongs to a session though its label couldn't be read, and counts the denial:
 * without the label there is no decision. Before Linux 6.2 the kernel returns no storage while a preempted task on the same CPU
 * is inside the lookup (bpf_task_storage_trylock), which happens with preempt=full. */
__noinline bool unlabelled(void)
{
	struct member *m = member(bpf_get_current_task_btf());

	if (!m)
		return false;
	struct session *s = session_at(m->slot, m->session);
	if (s) {
		__sync_fetch_and_add(&s->denied, 1);
		__sync_fetch_and_add(&s->lost, 1);
	}
	return true;
}

/* unconfined is a hook's return value for a task without a label: 0, or the error if the task belongs to a session. */
static __always_inline int unconfined(int error)
{
	return bpf_get_current_task_btf()->bpf_storage && unlabelled() ? error : 0;
}

#endif
