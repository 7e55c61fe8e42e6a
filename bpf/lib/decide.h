/* SPDX-License-Identifier: Apache-2.0 */
/* Decides about a path: the question, what it is asked of, and the answer. */
#ifndef TOOLGUARD_DECIDE_H
#define TOOLGUARD_DECIDE_H

#include "label.h"

enum why {
	WHY_RULE = 1,	/* need isn't given */
	WHY_GAIN,	/* a rename or link would give something */
	WHY_DEVICE,	/* devices are never made */
	WHY_UNRESOLVED, /* status says how */
	WHY_ENDED,	/* the session isn't there any more */
	WHY_ALWAYS,	/* denied to every session */
	WHY_ARGS,
	WHY_COMMAND,
	WHY_OUTSIDE,	/* it's about a task, a socket, a pipe or memory of another than the session */
	WHY_NET,	/* the policy grants nothing that takes such a socket */
	WHY_FILES,	/* the session has as many files that send signals as one may have */
};

#define EPERM 1
#define ENOENT 2
#define ENOMEM 12
#define EACCES 13
#define EXDEV 18
#define ECONNREFUSED 111

/* verdict is 0 when what was followed gives need, or the reason why not. */
static __always_inline u32 verdict(struct match *m, u32 need)
{
	if (m->status == WALK_OK)
		return need & ~have(m) ? WHY_RULE : 0;
	if (m->status == WALK_INTERNAL)
		return need & CAP_EXECUTE ? WHY_RULE : 0;
	return WHY_UNRESOLVED;
}

/*
 * The functions from here on are global for the verifier's sake: it looks at each once, for whatever it may be called
 * with, and not once for each call. That's why their pointers are checked, and why their results are no more than a yes
 * or no to a hook, whose answer must be a known number.
 */

/* question begins one: what's followed is the session's policy, from nothing done yet. */
static __always_inline void question(struct label *l, struct session *s)
{
	l->walk.image = s->image;
	l->walk.mount_ns = s->mount_ns;
	l->walk.session = s->id;
	l->walk.work = 0;
}

/* decide follows target[which] for need into match[which], and says whether need is given: 0, or the reason why not. */
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

/* is_allowed is decide for target[0] and a yes or no, quickly. A no may be wrong: decide knows. */
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

/* set_target says what path the next question is about. */
static __always_inline void set_target(struct label *l, u32 which, struct vfsmount *mnt, struct dentry *dentry)
{
	l->target[which].mnt = (u64)mnt;
	l->target[which].dentry = (u64)dentry;
}

#endif
