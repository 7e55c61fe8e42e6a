/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused, and what was executed where a policy asks for that, told to user space through a ring. The refusal comes
 * first: an event that doesn't fit, or is one too many in its second, is counted with its session and changes nothing about
 * what happens.
 */
#ifndef TOOLGUARD_REPORT_H
#define TOOLGUARD_REPORT_H

#include "session.h"

#define RATE 2000 /* refusals of one session that are told in one second */
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

enum why {
	WHY_RULE = 1,	/* need isn't given */
	WHY_GAIN,	/* a rename or link would give something */
	WHY_DEVICE,	/* devices are never made */
	WHY_UNRESOLVED, /* status says how */
	WHY_ENDED,	/* the session isn't there any more */
	WHY_ALWAYS,	/* refused to every session */
	WHY_ARGS,
	WHY_COMMAND,
	WHY_OUTSIDE,	/* it's about a task, a socket, a pipe or memory of another than the session */
	WHY_NET,	/* the policy grants nothing that takes such a socket */
	WHY_FILES,	/* the session has as many files that send signals as one may have */
};

/* detail says more, for some operations: the signal, ptrace's mode, ioctl's command, what moves (directory.c), and these. */
enum {
	MOUNT_MOUNT = 1,
	MOUNT_MOVE,
	MOUNT_UNMOUNT,
	MOUNT_REMOUNT,
	MOUNT_PIVOT_ROOT,
	MOUNT_CHROOT,
};

enum {
	CREATE_UNKNOWN = 1, /* whether there is something of that name wasn't known yet */
};

enum {
	KERNEL_BPF = 1,
	KERNEL_PERF,
	KERNEL_MODULE, /* asked for by what was done */
	KERNEL_CODE,   /* a module, another kernel, handed over */
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
	u64 time; /* since boot, suspended or not */
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
	u32 hit, layer;	  /* what decided, of what was refused */
	s32 error;
	u32 first, second; /* length of the paths, which follow each other in paths */
	u32 parent, parent_uid; /* of the process; as it was then, for it may be gone when this is read */
	char comm[16], parent_comm[16];
};

/* What paths take together at most: what is longer is cut off, in its event only. */
#define MAX_PATHS (2 * (4096 + 256))

/* What is told of a program beside its path: the name that it was executed by, its arguments, and how many bytes they have. */
#define MAX_ASKED 1024
#define MAX_TOLD_ARGS 64 /* internal/event tells no more, of both */
#define MAX_TOLD_LINE 4096

/* draft is where an event is written before it goes into a ring, so that it takes no more room there than it needs. A CPU has
 * several, since a task that writes one may be preempted by another that does. */
struct draft {
	struct event e;
	char paths[MAX_PATHS + MAX_ASKED + MAX_TOLD_LINE]; /* where a path ends there's room for a longest name */
	u32 busy;
};

#define MAX_DRAFTS 3

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_DRAFTS);
	__type(key, u32);
	__type(value, struct draft);
} drafts SEC(".maps");

/* A ring for each session whose events somebody reads: none can flood another's, and each has one reader. */
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

#endif
