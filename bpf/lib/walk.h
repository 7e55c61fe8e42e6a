/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the walk along a path works with: up from the dentry to the root (dentry.h), then down through the image (automaton.h).
 *
 * Memory: an LSM program may be preempted by one of another task on the same CPU, so what it works with belongs to the
 * task. It lies in a map also for the verifier's sake, which then takes a loop's state for unknown and is done at once.
 */
#ifndef TOOLGUARD_WALK_H
#define TOOLGUARD_WALK_H

#include "image.h"

enum walk_status {
	WALK_OK,
	WALK_INTERNAL, /* on a mount that no path leads to: a pipe, a socket, a memfd, an overlay's lower file */
	WALK_DEEP,
	WALK_DETACHED, /* no way up to the root: moved out of a bind mount, a mount that isn't in the tree */
	WALK_BUSY,     /* renamed again and again meanwhile */
	WALK_BROKEN,   /* couldn't be read, or the image is damaged */
	WALK_MOVED,    /* in events alone: followed, and renamed since */
	WALK_EXCHANGED, /* the session got another policy before the decision was whole */
	WALK_COSTLY,	/* so many aliases and patterns that following them would keep the processor too long */
};

struct match {
	u32 status;
	u32 caps; /* by the path, and what the file itself is held to, whatever its path: have */
	u32 linked;
	u32 depth;
	u32 hit, layer; /* who was the first to withhold something, NO_HIT and NO_LAYER: nobody */
	u32 cover[MAX_LAYERS]; /* what each layer gives, protect and secrets aside: what a directory takes along, or would gain */
	u32 node;   /* NO_NODE: left the trie */
	u32 live;   /* some pattern has started */
	u32 names;  /* the line of the list of aliases; 0: none */
	u32 name;   /* the line of the alias that is followed; 0: the path's own */
	u64 stamp;  /* of the dentries that were followed, and of when: it's another one once one of them is renamed */
	u64 starts[MAX_WORDS];
	u64 state[MAX_WORDS];
	u32 decided[MAX_TABLES]; /* hits */
};
#define NO_NODE 0xffffffffU

/* target is a path that a hook asks about: addresses, put in a map since the verifier doesn't take a pointer for a number
 * where a function is called. */
struct target {
	u64 mnt, dentry;
};

#define MAX_WALK (MAX_DEPTH + 64) /* and that many mounts on the way */

struct walk {
	u64 dentry, mount, root; /* how far the way up has come, and the root of that mount */
	u32 n;
	u32 proc; /* place in chain of a process's folder in /proc, plus one */
	u32 status;
	u32 len;  /* of the name read */
	u32 word; /* hits: where they are looked for */
	u32 hits; /* of the node that is entered: where they are */
	u32 affix, backwards;
	u32 image, mount_ns;
	u64 session;
	struct {
		u32 to, set;
	} found;
	u32 hash; /* of the name read */
	u32 work; /* steps taken for the question, over all attempts: see affordable */
	u32 length, at; /* of paths for an event */
	u32 order;
	u64 chain[MAX_DEPTH];
	u32 seq[MAX_DEPTH];
	u64 name[(MAX_NAME + 1) / 8 + 1];
	u64 mask[MAX_WORDS];
	u64 filter[FILTERS];
	u32 header[16];
	struct match other; /* alias.h: the walk by another name, which of them that is, how far it has come, */
	u32 nth, next;
	u64 counts[MAX_WORDS]; /* and the patterns' bits that say something which the path's own name doesn't */
};

struct matching {
	struct walk *c;
	struct match *m;
	u32 need;
};

#define NO_LAYER 0xffffffffU

/*
 * affordable says whether so many more steps may be taken for a question. A policy may come from who is held by it, and beneath
 * folders of its choice each of 1,024 aliases and 510 ends of a name can be followed, while nobody else gets the processor.
 * This many steps take some milliseconds; honest policies take some hundred.
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
