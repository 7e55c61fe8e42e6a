/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a question to an answer: judge decides about a path, refuse tells what was refused. Every hook is one of these
 * two with what it needs.
 */
#ifndef TOOLGUARD_DECIDE_H
#define TOOLGUARD_DECIDE_H

#include "report.h"

#define EPERM 1
#define ENOENT 2
#define ENOMEM 12
#define EACCES 13
#define EXDEV 18
#define ECONNREFUSED 111

/* denial is what was refused, to be told. */
struct denial {
	u32 op, why, need, detail, other;
	s32 error;
	u32 need2;
	u32 paths; /* how many of the label's targets it's about */
	u32 args;  /* 1: the beginning of a process's arguments lies in the label, and comes where a second path would */
};

struct writer {
	struct climb *c;
	struct draft *draft;
	u64 stamp;
};

/* write_step adds one component to an event's paths. */
static long write_step(u32 i, void *ctx)
{
	struct writer *w = ctx;
	struct climb *c = w->c;
	u32 n = c->n, at = c->at;

	if (i >= n || at >= MAX_PATHS)
		return 1;
	u64 dentry = c->chain[(n - 1 - i) & (MAX_DEPTH - 1)];
	u32 len = LOAD(struct dentry, dentry, d_name.len) & 0xff;
	u64 text = (u64)LOAD(struct dentry, dentry, d_name.name);
	w->draft->paths[at] = '/';
	if (c->proc && n - i == c->proc && is_own(c, dentry)) {
		len = 4;
		__builtin_memcpy(w->draft->paths + at + 1, "self", 4);
	} else {
		bpf_probe_read_kernel(w->draft->paths + at + 1, len, (void *)text);
	}
	c->at = at + 1 + len;
	w->stamp += hash_word(dentry, LOAD(struct dentry, dentry, d_seq.seqcount.sequence));
	return 0;
}

/* write_path adds a path to an event and returns where it ends. It's told when that isn't the path any more that was judged. */
static __always_inline u32 write_path(struct writer *w, struct target *t, struct match *m)
{
	struct climb *c = w->c;

	climb_again(c, t);
	w->stamp = 0;
	bpf_loop(MAX_DEPTH, write_step, w, 0);
	if (m->status == WALK_OK && w->stamp != m->stamp && w->draft->e.status == WALK_OK)
		w->draft->e.status = WALK_MOVED;
	u32 at = c->at;
	if (c->status == WALK_OK && !c->n && at < MAX_PATHS) {
		w->draft->paths[at] = '/';
		c->at = at + 1;
	}
	return c->at;
}

/* verdict is 0 when what was followed gives need, or the reason why not. */
static __always_inline u32 verdict(struct match *m, u32 need)
{
	if (m->status == WALK_OK)
		return need & ~have(m) ? WHY_RULE : 0;
	if (m->status == WALK_INTERNAL)
		return need & CAP_EXECUTE ? WHY_RULE : 0;
	return WHY_UNRESOLVED;
}

/* generation_of is that of a session's policy now: what is refused without following a path has followed none of it. */
static __always_inline u32 generation_of(struct session *s)
{
	struct line *head = line_of(s->image, 0);

	return head ? head->w[H_GENERATION] : 0;
}

static __always_inline void fill(struct event *e, struct label *l, struct session *s, struct denial *d)
{
	struct task_struct *t = bpf_get_current_task_btf(), *parent = t->real_parent->group_leader;
	u64 ids = bpf_get_current_pid_tgid();
	/* what refused: of two paths the first that isn't given */
	struct match *m = &l->match[d->paths > 1 && !verdict(&l->match[0], d->need)];

	e->time = bpf_ktime_get_boot_ns();
	e->session = l->id;
	e->start = t->group_leader->start_boottime;
	e->generation = d->paths ? l->climb.header[H_GENERATION] : generation_of(s);
	e->pid = ids >> 32;
	e->tid = ids;
	e->uid = bpf_get_current_uid_gid();
	e->op = d->op;
	e->why = d->why;
	e->status = d->paths ? m->status : WALK_OK;
	e->need = d->need;
	e->need2 = d->need2;
	e->caps = d->paths ? have(&l->match[0]) : 0;
	e->caps2 = d->paths > 1 ? have(&l->match[1]) : 0;
	e->hit = d->paths ? m->hit : NO_HIT;
	e->layer = d->paths ? m->layer : NO_LAYER;
	e->detail = d->detail;
	e->other = d->other;
	e->error = d->error;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	e->parent = parent->tgid;
	e->parent_uid = parent->cred->uid.val;
	bpf_probe_read_kernel(e->parent_comm, sizeof(e->parent_comm), parent->comm);
	e->sequence = __sync_fetch_and_add(&s->sequence, 1) + 1;
}

/* take_draft takes one of a CPU's first n. */
static __always_inline struct draft *take_draft(u32 n)
{
	for (u32 i = 0; i < n; i++) {
		u32 key = i;
		struct draft *draft = bpf_map_lookup_elem(&drafts, &key);
		if (draft && !__sync_lock_test_and_set(&draft->busy, 1))
			return draft;
	}
	return NULL;
}

/* tell writes the event of a refusal; false: it couldn't be. */
static __always_inline bool tell(struct label *l, struct session *s, struct denial *d)
{
	struct writer w = { .c = &l->climb, .draft = take_draft(MAX_DRAFTS) };
	u32 key = s->ring;
	void *ring = bpf_map_lookup_elem(&rings, &key);
	bool told = false;

	if (!w.draft)
		return false;
	struct event *e = &w.draft->e;
	fill(e, l, s, d);
	w.c->at = 0;
	e->first = d->paths ? write_path(&w, &l->target[0], &l->match[0]) : 0;
	u32 end = d->paths > 1 ? write_path(&w, &l->target[1], &l->match[1]) : e->first;
	if (d->args && l->args.length && end < MAX_PATHS) {
		bpf_probe_read_kernel(w.draft->paths + end, 256, l->args.text);
		end += l->args.length < 256 ? l->args.length : 256;
	}
	e->second = end - e->first;
	if (ring && end < MAX_PATHS + 256)
		told = !bpf_ringbuf_output(ring, e, sizeof(*e) + end, 0);
	__sync_lock_test_and_set(&w.draft->busy, 0);
	return told;
}

/* within_rate says whether one more event of this second is told. The window may begin twice on two CPUs at once: then a
 * few more are told than rate; the count of those that aren't is exact. */
static __always_inline bool within_rate(struct window *w, u32 rate)
{
	u64 now = bpf_ktime_get_boot_ns() / 1000000000ULL;

	if (w->second != now) {
		w->second = now;
		w->told = 0;
	}
	return __sync_fetch_and_add(&w->told, 1) < rate;
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

	if (!s)
		return 0;
	__sync_fetch_and_add(&s->denied, 1);
	if (!within_rate(&s->refusals, RATE))
		__sync_fetch_and_add(&s->suppressed, 1);
	else if (!tell(l, s, d))
		__sync_fetch_and_add(&s->lost, 1);
	return 0;
}

/* question begins one: what's followed is the session's policy, from nothing done yet. */
static __always_inline void question(struct label *l, struct session *s)
{
	l->climb.image = s->image;
	l->climb.mount_ns = s->mount_ns;
	l->climb.session = s->id;
	l->climb.work = 0;
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
	question(l, s);
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
	question(l, s);
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
