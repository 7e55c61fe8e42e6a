/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: the state that the programs share with internal/loader. */
#ifndef TOOLGUARD_SESSION_H
#define TOOLGUARD_SESSION_H

#include "kernel.h"

/* window counts the events of one second, for a rate. */
struct window {
	u64 second; /* since boot */
	u64 count;
};

/* session is shared with internal/loader, which maps it; the programs change only the counts. id and tasks have the same offset in
 * every version, so that each version can see whether another one still confines a task. */
struct session {
	u64 id;	   /* never used twice; 0: free */
	u32 tasks; /* labelled tasks whose memory the kernel hasn't freed */
	u32 flags;
	u32 image, lines; /* its lines in images: the first and the number, set with one write */
	u32 former_image, former_lines; /* of the previous image, which running programs may still read */
	u32 ring;     /* the ring of its events; NO_RING: they have no reader */
	u32 mount_ns; /* inode number of the mount namespace that the policy is for */
	u64 sequence; /* of the last event */
	u64 denied;   /* all denials */
	u64 suppressed; /* denied and not reported: more than RATE in a second */
	u64 lost;	/* denied and not reported: no space in the ring, or no ring */
	struct window denials, execs; /* reported ones */
	u64 unrecorded; /* executed programs that should have been reported and weren't */
	s32 owned; /* its entries in the table of files that send signals (task.c) */
	u32 user;  /* the owner's uid, which its tasks' may differ from */
	u32 living; /* tasks that haven't exited */
};
#define NO_RING 0xffffffffU

/* internal/loader (flags_linux.go) has the same list. */
enum {
	SESSION_NAMESPACES = 1, /* new user namespaces are allowed */
	SESSION_ENDING = 2,	/* no new tasks: the remaining ones are being killed */
	SESSION_STREAM = 4,	/* something is granted over TCP */
	SESSION_DATAGRAM = 8,	/* something is granted over UDP */
	SESSION_NET_FREE = 16,	/* no layer denies the network by default */
	SESSION_BPF = 32,	/* the policy allows these by the names of their system calls */
	SESSION_PERF = 64,
	SESSION_MODULES = 128,
	SESSION_IO_URING = 256,
};

#define MAX_SESSIONS 1024

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, u32);
	__type(value, struct session);
} sessions SEC(".maps");

static __always_inline struct session *session_at(u32 slot, u64 id)
{
	struct session *s = bpf_map_lookup_elem(&sessions, &slot);

	return s && s->id == id ? s : NULL;
}

#endif
