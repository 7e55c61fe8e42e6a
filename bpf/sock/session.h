/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session, and its denials, reported through a ring. As with files (lib/report.h), a denial doesn't depend on its event: an event
 * for which there's no space, or that exceeds the rate, is only counted.
 */
#ifndef TOOLGUARD_SOCK_SESSION_H
#define TOOLGUARD_SOCK_SESSION_H

#include "image.h"

#define RATE 2000 /* events in one second */
#define EACCES 13
#define EADDRINUSE 98

/* Each session has programs and maps of its own, which are freed with its cgroup. */
struct session {
	u64 id; /* 0: incomplete; nothing is allowed */
	u16 tcp4, tcp6, udp4, udp6; /* egress's ports, written at once; 0: it has none */
	u64 free; /* no layer denies the network by default */
	u64 own; /* its own servers on loopback may be reached, on any port that no rule denies */
	u64 images; /* replacements of the image, counted when no program uses the former one any more */
	u64 sockets; /* number of sockets made */
	u64 sequence; /* of the last event */
	u64 denied;   /* all denials */
	u64 suppressed; /* denied and not reported: more than RATE in a second */
	u64 lost;	/* denied and not reported: no space in the ring */
	u64 second;	/* the rate's window, in seconds since boot, and the events reported in it */
	u64 reported;
	u32 saved_size; /* private state for the session's next owner; the programs don't read it */
	u8 saved[2048];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct session);
} sessions SEC(".maps");

/* op is the denied operation. internal/loader/cgroupsock (event.go) has the same lists. */
enum op {
	OP_SOCKET = 1,
	OP_CONNECT,
	OP_SEND,
	OP_BIND,
	OP_PACKET, /* an outgoing one */
	OP_ACCEPT, /* an incoming one */
	OP_OPTION, /* of a socket: protocol is its level, kind its number */
};

enum why {
	WHY_POLICY = 1, /* by layer and rule */
	WHY_EGRESS,	/* egress's own address, or egress doesn't run */
	WHY_SOCKET,	/* no policy grants such a socket */
	WHY_DEVICE,	/* the socket is bound to a device that isn't the machine's choice, or doesn't lead to egress */
	WHY_ROUTE,	/* the packet has options or headers that can route it elsewhere, or is a fragment */
	WHY_MEMORY,	/* no memory to record the original destination */
	WHY_TAKEN,	/* layer and rule grant a port that no other process uses, and one does */
};

struct event {
	u64 time; /* since boot, including suspension */
	u64 session;
	u64 sequence;
	u64 since; /* since boot: when the task was recorded */
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

/* within_rate reports whether the rate permits one more event in this second. The window may begin on two CPUs at once: then a few
 * more events are reported than RATE. The count of suppressed events is exact. */
static __always_inline bool within_rate(struct session *s)
{
	u64 now = bpf_ktime_get_boot_ns() / 1000000000ULL;

	if (s->second != now) {
		s->second = now;
		s->reported = 0;
	}
	return __sync_fetch_and_add(&s->reported, 1) < RATE;
}

/* denial is a denial to report. */
struct denial {
	u32 op, why, protocol, kind;
	struct verdict by;
	struct endpoint at;
	struct task task;
};

/*
 * Functions that aren't static are global, so that the verifier checks each one once, for any arguments, and not once for each call.
 * So they check their pointers.
 */

/* emit writes a denial's event. It's a separate function so that the object has the event's type, for internal/loader/cgroupsock. */
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

/* deny counts and reports a denial. */
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

/* current_task records the current task, for the hooks of system calls. Packets may be handled in another task. */
static __always_inline void current_task(struct task *t)
{
	t->ids = bpf_get_current_pid_tgid();
	t->since = bpf_ktime_get_boot_ns();
	t->uid = bpf_get_current_uid_gid();
	bpf_get_current_comm(t->comm, sizeof(t->comm));
}

/* deny_task is deny for the current task, and returns the hook's value. */
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
