/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was denied, and what was executed where a policy asks for that, reported to user space through a ring. The denial comes
 * first: an event that doesn't fit, or is one too many in its second, is counted with its session and changes nothing about
 * what happens.
 */
#ifndef TOOLGUARD_REPORT_H
#define TOOLGUARD_REPORT_H

#include "decide.h"

#define RATE 2000 /* denials of one session that are reported in one second */
#define EXEC_RATE 1000

/* op is what was tried. internal/loader (event.go) has the same list. */
enum op {
	OP_OPEN = 1,
	OP_TRUNCATE,
	OP_CREATE,
	OP_DELETE,
	OP_RENAME,
	OP_LINK,
	OP_METADATA, /* mode, owner, times, attributes */
	OP_EXECUTE,
	OP_MAP, /* mapped executable */
	OP_COMMAND,
	OP_UNIX, /* connected to, or sent to, a unix socket */
	OP_IOCTL,
	OP_RECEIVE, /* a descriptor from another task */
	OP_SIGNAL,
	OP_TRACE,
	OP_MOUNT,
	OP_NAMESPACE,
	OP_SOCKET,
	OP_KERNEL, /* bpf, perf, modules, keys */
	OP_FORK,
	OP_WATCH, /* of a file or folder, for changes */
	OP_PRIORITY, /* of another task: priority, limits, memory */
	OP_CALL, /* a system call, by a filter; error is the signal that ends the process, negative */
	OP_EXEC, /* a program was executed: detail is the number of its arguments */
	OP_READLINK, /* the text of a symlink, asked for */
	OP_OPTION, /* of a socket */
};

/* The values of an event's detail, by operation: the signal, ptrace's mode, ioctl's command, MOVE_ (directory.c), and these. */
enum {
	MOUNT_MOUNT = 1,
	MOUNT_MOVE,
	MOUNT_UNMOUNT,
	MOUNT_REMOUNT,
	MOUNT_PIVOT_ROOT,
	MOUNT_CHROOT,
};

enum {
	CREATE_UNKNOWN = 1, /* the kernel hadn't looked the name up yet */
};

enum {
	KERNEL_BPF = 1,
	KERNEL_PERF,
	KERNEL_MODULE, /* the kernel asked for it on the task's behalf */
	KERNEL_CODE,   /* a module or another kernel, passed by the task */
	KERNEL_IO_URING,
};

enum {
	PRIORITY_NICE = 1,
	PRIORITY_IO,
	PRIORITY_SCHEDULER,
	PRIORITY_LIMIT,
	PRIORITY_MEMORY,
};

#define OPTION_DETAIL(level, option) ((level) & 0xffff | (option) << 16)
#define SOCKET_DETAIL(family, type, protocol) ((family) & 0xff | ((type) & 0xff) << 8 | (protocol) << 16)

struct event {
	u64 time; /* since boot, including suspension */
	u64 session;
	u64 sequence;
	u64 start; /* of the process, since boot */
	u32 generation;
	u32 pid, tid, uid;
	u32 op, why, status;
	u32 need, caps; /* what was needed on the first path, and given */
	u32 need2, caps2;
	u32 detail;	  /* by op */
	u32 other;	  /* the process that it was about */
	u32 hit, layer;	  /* what decided, of what was denied */
	s32 error;
	u32 first, second; /* length of the paths, which follow each other in paths */
	u32 parent, parent_uid; /* of the process at that time: it may have ended when the event is read */
	char comm[16], parent_comm[16];
};

/* The capacity of an event's paths together. Longer ones are truncated, in the event only. */
#define MAX_PATHS (2 * (4096 + 256))

/* An event of an executed program has its path, the name that it was executed by, and its arguments, limited in number and bytes. */
#define MAX_ASKED 1024
#define MAX_REPORTED_ARGS 64 /* internal/event reports no more, of both */
#define MAX_REPORTED_LINE 4096

/* draft is the buffer in which an event is written before it's copied to a ring, so that it uses only its own size there. A CPU
 * has several, since a task that writes one may be preempted by another that does. */
struct draft {
	struct event e;
	char paths[MAX_PATHS + MAX_ASKED + MAX_REPORTED_LINE]; /* where a path ends there's space for a longest name */
	u32 busy;
};

#define MAX_DRAFTS 3

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_DRAFTS);
	__type(key, u32);
	__type(value, struct draft);
} drafts SEC(".maps");

/* One ring for each session whose events have a reader: no session can flood another's ring. */
#define RING_SIZE (32 << 10)

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SIZE);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* denial is a denial to report. */
struct denial {
	u32 op, why, need, detail, other;
	s32 error;
	u32 need2;
	u32 paths; /* the number of the label's targets that it's about */
	u32 args;  /* 1: the label has the beginning of the arguments, which is written in place of a second path */
};

struct writer {
	struct walk *c;
	struct draft *draft;
	u64 stamp;
};

/* write_step adds one component to an event's paths. */
static long write_step(u32 i, void *ctx)
{
	struct writer *w = ctx;
	struct walk *c = w->c;
	u32 n = c->n, at = c->at;

	if (i >= n || at >= MAX_PATHS)
		return 1;
	u64 dentry = c->chain[(n - 1 - i) & (MAX_DEPTH - 1)];
	u32 len = LOAD(struct dentry, dentry, d_name.len) & 0xff;
	u64 text = (u64)LOAD(struct dentry, dentry, d_name.name);
	w->draft->paths[at] = '/';
	if (c->proc && n - i == c->proc && is_own(c, dentry)) {
		len = 4;
		__builtin_memcpy(w->draft->paths + at + 1, "self", 4);
	} else {
		bpf_probe_read_kernel(w->draft->paths + at + 1, len, (void *)text);
	}
	c->at = at + 1 + len;
	w->stamp += hash_word(dentry, LOAD(struct dentry, dentry, d_seq.seqcount.sequence));
	return 0;
}

/* write_path adds a path to an event and returns its end. The status is WALK_MOVED if the path has changed since the decision. */
static __always_inline u32 write_path(struct writer *w, struct target *t, struct match *m)
{
	struct walk *c = w->c;

	walk_up_loop(c, t);
	w->stamp = 0;
	bpf_loop(MAX_DEPTH, write_step, w, 0);
	if (m->status == WALK_OK && w->stamp != m->stamp && w->draft->e.status == WALK_OK)
		w->draft->e.status = WALK_MOVED;
	u32 at = c->at;
	if (c->status == WALK_OK && !c->n && at < MAX_PATHS) {
		w->draft->paths[at] = '/';
		c->at = at + 1;
	}
	return c->at;
}

/* generation_of is the generation of a session's current policy, for denials without a path. */
static __always_inline u32 generation_of(struct session *s)
{
	struct line *head = line_of(s->image, 0);

	return head ? head->w[H_GENERATION] : 0;
}

static __always_inline void fill(struct event *e, struct label *l, struct session *s, struct denial *d)
{
	struct task_struct *t = bpf_get_current_task_btf(), *parent = t->real_parent->group_leader;
	u64 ids = bpf_get_current_pid_tgid();
	/* of two paths, the first that was denied */
	struct match *m = &l->match[d->paths > 1 && !verdict(&l->match[0], d->need)];

	e->time = bpf_ktime_get_boot_ns();
	e->session = l->id;
	e->start = t->group_leader->start_boottime;
	e->generation = d->paths ? l->walk.header[H_GENERATION] : generation_of(s);
	e->pid = ids >> 32;
	e->tid = ids;
	e->uid = bpf_get_current_uid_gid();
	e->op = d->op;
	e->why = d->why;
	e->status = d->paths ? m->status : WALK_OK;
	e->need = d->need;
	e->need2 = d->need2;
	e->caps = d->paths ? have(&l->match[0]) : 0;
	e->caps2 = d->paths > 1 ? have(&l->match[1]) : 0;
	e->hit = d->paths ? m->hit : NO_HIT;
	e->layer = d->paths ? m->layer : NO_LAYER;
	e->detail = d->detail;
	e->other = d->other;
	e->error = d->error;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	e->parent = parent->tgid;
	e->parent_uid = parent->cred->uid.val;
	bpf_probe_read_kernel(e->parent_comm, sizeof(e->parent_comm), parent->comm);
	e->sequence = __sync_fetch_and_add(&s->sequence, 1) + 1;
}

/* acquire_draft acquires one of the CPU's first n drafts. */
static __always_inline struct draft *acquire_draft(u32 n)
{
	for (u32 i = 0; i < n; i++) {
		u32 key = i;
		struct draft *draft = bpf_map_lookup_elem(&drafts, &key);
		if (draft && !__sync_lock_test_and_set(&draft->busy, 1))
			return draft;
	}
	return NULL;
}

/* emit writes the event of a denial; false if it failed. */
static __always_inline bool emit(struct label *l, struct session *s, struct denial *d)
{
	struct writer w = { .c = &l->walk, .draft = acquire_draft(MAX_DRAFTS) };
	u32 key = s->ring;
	void *ring = bpf_map_lookup_elem(&rings, &key);
	bool emitted = false;

	if (!w.draft)
		return false;
	struct event *e = &w.draft->e;
	fill(e, l, s, d);
	w.c->at = 0;
	e->first = d->paths ? write_path(&w, &l->target[0], &l->match[0]) : 0;
	u32 end = d->paths > 1 ? write_path(&w, &l->target[1], &l->match[1]) : e->first;
	if (d->args && l->args.length && end < MAX_PATHS) {
		bpf_probe_read_kernel(w.draft->paths + end, 256, l->args.text);
		end += l->args.length < 256 ? l->args.length : 256;
	}
	e->second = end - e->first;
	if (ring && end < MAX_PATHS + 256)
		emitted = !bpf_ringbuf_output(ring, e, sizeof(*e) + end, 0);
	__sync_lock_test_and_set(&w.draft->busy, 0);
	return emitted;
}

/* within_rate reports whether the rate permits one more event in this second. The window may begin on two CPUs at once: then a few
 * more events are reported than rate permits. The count of suppressed events is exact. */
static __always_inline bool within_rate(struct window *w, u32 rate)
{
	u64 now = bpf_ktime_get_boot_ns() / 1000000000ULL;

	if (w->second != now) {
		w->second = now;
		w->count = 0;
	}
	return __sync_fetch_and_add(&w->count, 1) < rate;
}

/* deny counts and reports a denial. */
__noinline int deny(struct label *l, struct denial *d)
{
	if (!l || !d)
		return 0;
	struct session *s = session_of(l);

	if (!s)
		return 0;
	__sync_fetch_and_add(&s->denied, 1);
	if (!within_rate(&s->denials, RATE))
		__sync_fetch_and_add(&s->suppressed, 1);
	else if (!emit(l, s, d))
		__sync_fetch_and_add(&s->lost, 1);
	return 0;
}

/* check decides about target[0] and reports a denial: 0, or the reason why not. */
static __always_inline u32 check(struct label *l, u32 op, u32 need)
{
	struct denial d = { .op = op, .need = need, .error = EACCES, .paths = 1 };

	d.why = decide(l, 0, need);
	if (d.why)
		deny(l, &d);
	return d.why;
}

/* allow checks need on one path: 0, or -EACCES, for the hook. */
static __always_inline int allow(struct label *l, u32 op, struct vfsmount *mnt, struct dentry *dentry, u32 need)
{
	set_target(l, 0, mnt, dentry);
	return check(l, op, need) ? -EACCES : 0;
}

#endif
