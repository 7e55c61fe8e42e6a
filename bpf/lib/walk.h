/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a walk along a path: up from the dentry to the root (dentry.h), then down through the image (automaton.h).
 *
 * Memory: a task may be preempted in an LSM program by another task on the same CPU, so the state belongs to the task. As it's in
 * a map, the verifier treats a loop's state as unknown and checks the loop once.
 */
#ifndef TOOLGUARD_WALK_H
#define TOOLGUARD_WALK_H

#include "image.h"

enum walk_status {
	WALK_OK,
	WALK_INTERNAL, /* on an internal mount without a path: a pipe, a socket, a memfd, an overlay's lower file */
	WALK_DEEP,
	WALK_DETACHED, /* doesn't reach the root: moved out of a bind mount, or a mount outside the tree */
	WALK_BUSY,     /* renamed during every attempt */
	WALK_BROKEN,   /* unreadable, or the image is damaged */
	WALK_MOVED,    /* in events only: renamed after the decision */
	WALK_EXCHANGED, /* the session got another policy during the decision */
	WALK_COSTLY,	/* too many aliases and patterns to follow in a bounded time */
};

struct match {
	u32 status;
	u32 caps; /* capabilities by the path; linked: those by the file's hard links (have uses both) */
	u32 linked;
	u32 depth;
	u32 hit, layer; /* the first that denied some of need; NO_HIT and NO_LAYER: none */
	u32 cover[MAX_LAYERS]; /* what each layer grants, without protect and secrets: for a directory that moves (gains) */
	u32 node;   /* NO_NODE: left the trie */
	u32 live;   /* some pattern has started */
	u32 names;  /* the line of the list of aliases; 0: none */
	u32 name;   /* the line of the alias that is followed; 0: the path itself */
	u64 stamp;  /* of the dentries that were followed and their d_seq: it differs after any of them is renamed */
	u64 starts[MAX_WORDS];
	u64 state[MAX_WORDS];
	u32 decided[MAX_TABLES]; /* hits */
};
#define NO_NODE 0xffffffffU

/* target is a path that a hook decides about. It's passed as addresses in a map, since the verifier rejects a pointer in place of a
 * number as an argument. */
struct target {
	u64 mnt, dentry;
};

#define MAX_WALK (MAX_DEPTH + 64) /* plus the mounts on the path */

struct walk {
	u64 dentry, mount, root; /* the position of the walk up, and the root of that mount */
	u32 n;
	u32 proc; /* index in chain of a process's folder in /proc, plus one */
	u32 status;
	u32 len;  /* of the name read */
	u32 word; /* hit_step: the word of mask */
	u32 hits; /* index of the first hit of the node that is entered */
	u32 affix, backwards;
	u32 image, mount_ns;
	u64 session;
	struct {
		u32 to, set;
	} found;
	u32 hash; /* of the name read */
	u32 work; /* steps of the decision, over all attempts: see affordable */
	u32 length, at; /* of paths for an event */
	u32 order;
	u64 chain[MAX_DEPTH];
	u32 seq[MAX_DEPTH];
	u64 name[(MAX_NAME + 1) / 8 + 1];
	u64 mask[MAX_WORDS];
	u64 filter[FILTERS];
	u32 header[16];
	struct match other; /* alias.h: the walk along an alias, the alias's index, the next component, */
	u32 nth, next;
	u64 counts[MAX_WORDS]; /* and the patterns' bits that add to the decision about the path itself */
};

struct matching {
	struct walk *c;
	struct match *m;
	u32 need;
};

#define NO_LAYER 0xffffffffU

/*
 * affordable reports whether a decision may do that many more steps. The attacker may have written the policy: beneath folders of
 * its choice, 1,024 aliases and 510 suffixes of each name are followed, and no other task gets the processor meanwhile. MAX_WORK
 * steps last some milliseconds. Usual policies need some hundred steps.
 */
#define MAX_WORK (1 << 17)

static __always_inline bool affordable(struct walk *c, u32 steps)
{
	c->work += steps;
	if (c->work <= MAX_WORK)
		return true;
	c->status = WALK_COSTLY;
	return false;
}

#endif
