/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: what the programs share with internal/loader about each. */
#ifndef TOOLGUARD_SESSION_H
#define TOOLGUARD_SESSION_H

#include "kernel.h"

/* window is one second of what is reported at a rate. */
struct window {
	u64 second; /* since boot */
	u64 count;
};

/* session is shared with internal/loader, which has its memory mapped; the programs change nothing but the counts. id and tasks
 * stand where they stand in every version, so that any can find out whether another one still confines somebody. */
struct session {
	u64 id;	   /* never used twice; 0: free */
	u32 tasks; /* labelled tasks that the kernel still has memory of */
	u32 flags;
	u32 image, lines; /* its lines in images: the first, and how many; one write for both */
	u32 former_image, former_lines; /* of the image before, which programs that run may be following still */
	u32 ring;     /* the one that its events go to; NO_RING: nobody reads them */
	u32 mount_ns; /* inode number of the mount namespace whose tree is the policy's */
	u64 sequence; /* of the last event */
	u64 denied;   /* everything denied */
	u64 suppressed; /* denied and not reported: more than RATE in a second */
	u64 lost;	/* denied and not reported: no space in the ring, or no ring */
	struct window denials, execs; /* what was reported of them */
	u64 unrecorded; /* executed, and not reported though it was to be */
	s32 owned; /* entries of the table of files that send signals (task.c) */
	u32 user;  /* whose it is, whoever its tasks are */
	u32 living; /* of tasks, those that haven't exited */
};
#define NO_RING 0xffffffffU

/* internal/loader (flags_linux.go) has the same list. */
enum {
	SESSION_NAMESPACES = 1, /* new user namespaces are allowed */
	SESSION_ENDING = 2,	/* no new tasks: what is left is being killed */
	SESSION_STREAM = 4,	/* something is granted over TCP */
	SESSION_DATAGRAM = 8,	/* something is granted over UDP */
	SESSION_NET_FREE = 16,	/* no authority denies the network by default */
	SESSION_BPF = 32,	/* these are allowed by the names of their system calls */
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
