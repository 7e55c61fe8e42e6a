/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session, and what was denied in it, reported through a ring. As with files (lib/report.h) the denial comes first: an event that
 * doesn't fit, or is one too many in its second, is counted and changes nothing.
 */
#ifndef TOOLGUARD_SOCK_SESSION_H
#define TOOLGUARD_SOCK_SESSION_H

#include "image.h"

#define RATE 2000 /* events in one second */
#define EACCES 13
#define EADDRINUSE 98

/* Each session has programs and maps of its own, which go when its cgroup goes. */
struct session {
	u64 id; /* 0: not complete; nothing is allowed */
	u16 tcp4, tcp6, udp4, udp6; /* egress's ports, written at once; 0: it has none */
	u64 free; /* no authority denies the network by default */
	u64 own; /* its own servers on loopback may be reached, on any port that no rule denies */
	u64 images; /* how often the image was exchanged: counted when no program runs on with the former one */
	u64 sockets; /* how many were made */
	u64 sequence; /* of the last event */
	u64 denied;   /* everything denied */
	u64 suppressed; /* denied and not reported: more than RATE in a second */
	u64 lost;	/* denied and not reported: no space in the ring */
	u64 second;	/* the rate's window, in seconds since boot, and what was reported in it */
	u64 reported;
	u32 saved_size; /* what whoever owns the session next must know, and nobody else; programs don't read it */
	u8 saved[2048];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct session);
} sessions SEC(".maps");

/* op is what was tried. internal/loader/cgroupsock (event.go) has the same lists. */
enum op {
	OP_SOCKET = 1,
	OP_CONNECT,
	OP_SEND,
	OP_BIND,
	OP_PACKET, /* one that would have left */
	OP_ACCEPT, /* one that would have come in */
	OP_OPTION, /* of a socket: protocol is its level, kind its number */
};

enum why {
	WHY_POLICY = 1, /* layer and rule say which */
	WHY_EGRESS,	/* egress itself, or there is none to ask */
	WHY_SOCKET,	/* no such socket is ever granted */
	WHY_DEVICE,	/* by a device that the machine hasn't chosen, or one that doesn't lead to egress */
	WHY_ROUTE,	/* the packet has options or headers that can lead it elsewhere, or isn't whole */
	WHY_MEMORY,	/* no space to note down where the socket was going */
	WHY_TAKEN,	/* layer and rule grant it where no other process waits, and one does */
};

struct event {
	u64 time; /* since boot, suspended or not */
	u64 session;
	u64 sequence;
	u64 since; /* boot: when the task was looked at */
	u32 pid, tid, uid;
	u32 op, why;
	s32 layer, rule;
	u32 generation; /* of the image */
	u32 protocol;
	u32 kind; /* of the socket: SOCK_STREAM, SOCK_DGRAM, … */
	struct endpoint at;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 10);
} events SEC(".maps");

static __always_inline struct session *session(void)
{
	u32 key = 0;
	struct session *s = bpf_map_lookup_elem(&sessions, &key);

	return s && s->id ? s : NULL;
}

/* within_rate says whether one more event of this second is reported. The window may begin twice on two CPUs at once: then a
 * few more are reported than RATE; the count of those that aren't is exact. */
static __always_inline bool within_rate(struct session *s)
{
	u64 now = bpf_ktime_get_boot_ns() / 1000000000ULL;

	if (s->second != now) {
		s->second = now;
		s->reported = 0;
	}
	return __sync_fetch_and_add(&s->reported, 1) < RATE;
}

/* denial is what was denied, to be reported. */
struct denial {
	u32 op, why, protocol, kind;
	struct verdict by;
	struct endpoint at;
	struct task task;
};

/*
 * Functions that aren't static are global for the verifier's sake: it looks at each once, for whatever it may be called with,
 * and not once for each call. That's why their pointers are checked.
 */

/* emit writes a denial's event. It's a function of its own so that the event's form is known to internal/loader/cgroupsock. */
static __noinline int emit(struct event *e, const struct denial *r)
{
	e->time = bpf_ktime_get_boot_ns();
	e->pid = r->task.ids >> 32;
	e->tid = r->task.ids;
	e->since = r->task.since;
	e->uid = r->task.uid;
	e->op = r->op;
	e->why = r->why;
	e->layer = r->by.layer;
	e->rule = r->by.rule;
	e->generation = r->by.generation;
	e->protocol = r->protocol;
	e->kind = r->kind;
	e->at = r->at;
	__builtin_memcpy(e->comm, r->task.comm, sizeof(e->comm));
	return 0;
}

/* deny counts a denial, and reports it. */
__noinline int deny(struct denial *r)
{
	struct session *s = session();

	if (!s || !r)
		return 0;
	__sync_fetch_and_add(&s->denied, 1);
	if (!within_rate(s)) {
		__sync_fetch_and_add(&s->suppressed, 1);
		return 0;
	}
	u64 sequence = __sync_fetch_and_add(&s->sequence, 1) + 1;
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&s->lost, 1);
		return 0;
	}
	emit(e, r);
	e->session = s->id;
	e->sequence = sequence;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* current_task is for the hooks that a task comes by, which packets needn't. */
static __always_inline void current_task(struct task *t)
{
	t->ids = bpf_get_current_pid_tgid();
	t->since = bpf_ktime_get_boot_ns();
	t->uid = bpf_get_current_uid_gid();
	bpf_get_current_comm(t->comm, sizeof(t->comm));
}

/* deny_task is deny for what the current task does, and is its hook's answer. */
static __always_inline int deny_task(struct denial *r)
{
	bpf_set_retval(-EACCES);
	if (!r)
		return 0;
	current_task(&r->task);
	deny(r);
	return 0;
}

#endif
