/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a question to an answer: judge decides about a path, refuse tells what was refused. Every hook is one of these
 * two with what it needs.
 */
#ifndef TOOLGUARD_JUDGE_H
#define TOOLGUARD_JUDGE_H

#include "event.h"

#define EPERM 1
#define ENOENT 2
#define ENOMEM 12
#define EACCES 13
#define EXDEV 18

/* denial is what was refused, to be told. */
struct denial {
	u32 op, why, need, detail;
	s32 error;
	u32 need2;
	u32 paths; /* how many of the label's targets it's about */
};

static long length_step(u32 i, void *ctx)
{
	struct climb *c = *(struct climb **)ctx;

	if (i >= c->n)
		return 1;
	c->length += (LOAD(struct dentry, c->chain[i & (MAX_DEPTH - 1)], d_name.len) & 0xff) + 1;
	return 0;
}

struct writer {
	struct climb *c;
	char *paths;
};

/* WRITE_STEP adds one component to an event's paths. The room behind them takes a longest name. */
#define WRITE_STEP(step, size)                                                                     \
	static long step(u32 i, void *ctx)                                                         \
	{                                                                                          \
		struct writer *w = ctx;                                                            \
		struct climb *c = w->c;                                                            \
		u32 n = c->n, at = c->at;                                                          \
                                                                                                   \
		if (i >= n || at >= (size) - 1)                                                    \
			return 1;                                                                  \
		u64 dentry = c->chain[(n - 1 - i) & (MAX_DEPTH - 1)];                              \
		u32 len = LOAD(struct dentry, dentry, d_name.len) & 0xff;                          \
		u64 text = (u64)LOAD(struct dentry, dentry, d_name.name);                          \
		w->paths[at] = '/';                                                                \
		bpf_probe_read_kernel(w->paths + at + 1, len, (void *)text);                       \
		c->at = at + 1 + len;                                                              \
		return 0;                                                                          \
	}
WRITE_STEP(write_small, SMALL_PATHS)
WRITE_STEP(write_large, LARGE_PATHS)

static __always_inline u32 path_length(struct climb *c, struct target *t)
{
	climb_again(c, t);
	c->length = 0;
	bpf_loop(MAX_DEPTH, length_step, &c, 0);
	return c->length;
}

static __always_inline void fill(struct event *e, struct label *l, struct session *s, struct denial *d)
{
	struct task_struct *t = bpf_get_current_task_btf();
	u64 ids = bpf_get_current_pid_tgid();

	e->time = bpf_ktime_get_boot_ns();
	e->session = l->id;
	e->start = t->group_leader->start_boottime;
	e->generation = l->climb.header[H_GENERATION];
	e->pid = ids >> 32;
	e->tid = ids;
	e->uid = bpf_get_current_uid_gid();
	e->op = d->op;
	e->why = d->why;
	e->status = l->match[0].status;
	e->need = d->need;
	e->need2 = d->need2;
	e->caps = d->paths ? l->match[0].caps : 0;
	e->caps2 = d->paths > 1 ? l->match[1].caps : 0;
	struct match *m = &l->match[d->paths > 1 && !(d->need & ~l->match[0].caps)];
	e->hit = d->paths ? m->hit : NO_HIT;
	e->layer = d->paths ? m->layer : NO_LAYER;
	e->detail = d->detail;
	e->error = d->error;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	e->sequence = __sync_fetch_and_add(&s->sequence, 1) + 1;
}

#define WRITE_EVENT(type, step)                                                                      \
	({                                                                                           \
		struct type *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);                        \
		if (r) {                                                                             \
			struct writer w = { .c = c, .paths = r->paths };                             \
			fill(&r->e, l, s, d);                                                        \
			c->at = 0;                                                                   \
			if (d->paths) {                                                              \
				climb_again(c, &l->target[0]);                                       \
				bpf_loop(MAX_DEPTH, step, &w, 0);                                    \
			}                                                                            \
			r->e.first = c->at;                                                          \
			if (d->paths > 1) {                                                          \
				climb_again(c, &l->target[1]);                                       \
				bpf_loop(MAX_DEPTH, step, &w, 0);                                    \
			}                                                                            \
			r->e.second = c->at - r->e.first;                                            \
			bpf_ringbuf_submit(r, 0);                                                    \
		} else {                                                                             \
			__sync_fetch_and_add(&s->lost, 1);                                           \
		}                                                                                    \
	})

/* within_rate says whether one more event of this second is told. The window may begin twice on two CPUs at once: then a
 * few more are told than RATE; the count of those that aren't is exact. */
static __always_inline bool within_rate(struct session *s)
{
	u64 now = bpf_ktime_get_boot_ns() / 1000000000ULL;

	if (s->second != now) {
		s->second = now;
		s->told = 0;
	}
	return __sync_fetch_and_add(&s->told, 1) < RATE;
}

/*
 * The functions from here on are global for the verifier's sake: it looks at each once, for whatever it may be called
 * with, and not once for each call. That's why their pointers are checked, and why their results are no more than a yes
 * or no to a hook, whose answer must be a known number.
 */

/* refuse counts a refusal, and tells it. */
__noinline int refuse(struct label *l, struct denial *d)
{
	if (!l || !d)
		return 0;
	struct session *s = session_of(l);
	struct climb *c = &l->climb;

	if (!s)
		return 0;
	__sync_fetch_and_add(&s->denied, 1);
	if (!within_rate(s)) {
		__sync_fetch_and_add(&s->suppressed, 1);
		return 0;
	}
	u32 length = d->paths ? path_length(c, &l->target[0]) : 0;
	if (d->paths > 1)
		length += path_length(c, &l->target[1]);
	if (length < SMALL_PATHS)
		WRITE_EVENT(small_event, write_small);
	else
		WRITE_EVENT(large_event, write_large);
	return 0;
}

/* verdict is 0 when what was followed gives need, or the reason why not. */
static __always_inline u32 verdict(struct match *m, u32 need)
{
	if (m->status == WALK_OK)
		return need & ~m->caps ? WHY_RULE : 0;
	if (m->status == WALK_INTERNAL)
		return need & CAP_EXECUTE ? WHY_RULE : 0;
	return WHY_UNRESOLVED;
}

/* judge follows target[which] for need into match[which], and says whether need is given: 0, or the reason why not. */
__noinline u32 judge(struct label *l, u32 which, u32 need)
{
	if (!l)
		return WHY_ENDED;
	struct session *s = session_of(l);
	struct match *m = &l->match[which & 1];
	struct attempt a = { .c = &l->climb, .m = m, .t = &l->target[which & 1], .need = need };

	if (!s)
		return WHY_ENDED;
	l->climb.image = s->image;
	l->climb.mount_ns = s->mount_ns;
	bpf_loop(MAX_ATTEMPTS, attempt_step, &a, 0);
	return verdict(m, need);
}

/* given is judge for target[0] and a yes or no, quickly. A no may be wrong: judge knows. */
__noinline bool given(struct label *l, u32 need)
{
	if (!l)
		return false;
	struct session *s = session_of(l);

	if (!s)
		return false;
	l->climb.image = s->image;
	l->climb.mount_ns = s->mount_ns;
	match(&l->climb, &l->match[0], &l->target[0], need, true);
	return !verdict(&l->match[0], need);
}

/* permit is judge and refuse for target[0]: 0, or the reason why not. */
static __always_inline u32 permit(struct label *l, u32 op, u32 need)
{
	struct denial d = { .op = op, .need = need, .error = EACCES, .paths = 1 };

	d.why = judge(l, 0, need);
	if (d.why)
		refuse(l, &d);
	return d.why;
}

/* aim says what path the next question is about. */
static __always_inline void aim(struct label *l, u32 which, struct vfsmount *mnt, struct dentry *dentry)
{
	l->target[which].mnt = (u64)mnt;
	l->target[which].dentry = (u64)dentry;
}

/* allow asks for need on one path: 0, or -EACCES for the hook. */
static __always_inline int allow(struct label *l, u32 op, struct vfsmount *mnt, struct dentry *dentry, u32 need)
{
	aim(l, 0, mnt, dentry);
	return permit(l, op, need) ? -EACCES : 0;
}

#endif
