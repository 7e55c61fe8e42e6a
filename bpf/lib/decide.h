/* SPDX-License-Identifier: Apache-2.0 */
/* Decides about a path: sets the target, follows it and compares the result with the need. */
#ifndef TOOLGUARD_DECIDE_H
#define TOOLGUARD_DECIDE_H

#include "label.h"

enum why {
	WHY_RULE = 1,	/* the rules don't grant need */
	WHY_GAIN,	/* a rename or link would add a capability */
	WHY_DEVICE,	/* no session creates devices */
	WHY_UNRESOLVED, /* status has the cause */
	WHY_ENDED,	/* the session has ended */
	WHY_ALWAYS,	/* denied to every session */
	WHY_ARGS,
	WHY_COMMAND,
	WHY_OUTSIDE,	/* the task, socket, pipe or memory belongs to a process outside the session */
	WHY_NET,	/* the policy grants nothing that needs such a socket */
	WHY_FILES,	/* the session has as many files that send signals as one may have */
};

#define EPERM 1
#define ENOENT 2
#define ENOMEM 12
#define EACCES 13
#define EXDEV 18
#define ECONNREFUSED 111

/* verdict is 0 when the path that was followed has need, or the reason why not. */
static __always_inline u32 verdict(struct match *m, u32 need)
{
	if (m->status == WALK_OK)
		return need & ~have(m) ? WHY_RULE : 0;
	if (m->status == WALK_INTERNAL)
		return need & CAP_EXECUTE ? WHY_RULE : 0;
	return WHY_UNRESOLVED;
}

/*
 * The functions below are global, so that the verifier checks each one once, for any arguments, and not once for each call.
 * So they check their pointers, and a hook uses their results only as a yes or no: its own return value must be a number that
 * the verifier knows.
 */

/* question begins a decision: it sets the session's policy in force and resets the work count. */
static __always_inline void question(struct label *l, struct session *s)
{
	l->walk.image = s->image;
	l->walk.mount_ns = s->mount_ns;
	l->walk.session = s->id;
	l->walk.work = 0;
}

/* decide follows target[which] for need into match[which]. It returns 0 when need is granted, or the reason why not. */
__noinline u32 decide(struct label *l, u32 which, u32 need)
{
	if (!l)
		return WHY_ENDED;
	struct session *s = session_of(l);
	struct match *m = &l->match[which & 1];
	struct attempt a = { .c = &l->walk, .m = m, .t = &l->target[which & 1], .need = need };

	if (!s)
		return WHY_ENDED;
	question(l, s);
	bpf_loop(MAX_ATTEMPTS, attempt_step, &a, 0);
	return verdict(m, need);
}

/* is_allowed is a faster decide for target[0]. A yes is final. A no may be wrong, so that decide must follow it. */
__noinline bool is_allowed(struct label *l, u32 need)
{
	if (!l)
		return false;
	struct session *s = session_of(l);

	if (!s)
		return false;
	question(l, s);
	match(&l->walk, &l->match[0], &l->target[0], need, true);
	return !verdict(&l->match[0], need);
}

/* set_target sets the path that the next decision is about. */
static __always_inline void set_target(struct label *l, u32 which, struct vfsmount *mnt, struct dentry *dentry)
{
	l->target[which].mnt = (u64)mnt;
	l->target[which].dentry = (u64)dentry;
}

#endif
