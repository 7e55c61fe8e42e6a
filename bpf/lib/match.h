/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a session may do with a file: walks from the dentry up to the root of the machine's tree, then follows the names
 * down through the image. It decides as policy.Compiled.CheckFS does, on the same automaton. Nothing is truncated: on a path that
 * can't be followed to its end, nothing is allowed.
 */
#ifndef TOOLGUARD_MATCH_H
#define TOOLGUARD_MATCH_H

#include "alias.h"
#include "hardlink.h"

/* In addition to a layer's capabilities: its rule lifts protect, protect has no rule for the path; the same for secrets. In package
 * policy: lifted, uncovered and brings. */
#define CAP_LIFTED 128
#define CAP_UNCOVERED 64
#define CAP_LIFTED_SECRETS 512
#define CAP_UNCOVERED_SECRETS 256
#define CAP_BRINGS (CAP_CREATE | CAP_LIFTED | CAP_UNCOVERED)

/* layer_step removes the capabilities that the i-th layer doesn't grant; false after the last layer. layer and hit name the first
 * that denied some of need. */
static __always_inline bool layer_step(struct walk *c, struct match *m, u32 need, u32 i)
{
	if (i >= c->header[H_NLAYERS] || i >= MAX_LAYERS)
		return false;
	struct line *l = line_of(c->image, c->header[H_LAYERS] + i / 4);
	if (!l) {
		m->caps = 0;
		return false;
	}
	u32 taking = l->w[(i & 3) * 4 + 1], action = l->w[(i & 3) * 4 + 2];
	u32 h = decider(m, l->w[(i & 3) * 4]), gives = CAP_ALL;
	bool unprotects = false, reveals = false;
	if (action != UNDECLARED) {
		if (h != NO_HIT) {
			gives = HIT_CAPS(h);
			unprotects = HIT_UNPROTECT(h);
			reveals = h & HIT_SECRET;
		} else if (action != ALLOW) {
			gives = 0;
		}
	}
	u32 p = decider(m, TAKING_PROTECT(taking)), s = secret(m, TAKING_SECRETS(taking));
	m->cover[i] = gives | (unprotects && TAKING_PROTECT(taking) ? CAP_LIFTED : 0) | (p == NO_HIT ? CAP_UNCOVERED : 0) |
		      (reveals && TAKING_SECRETS(taking) ? CAP_LIFTED_SECRETS : 0) | (s == NO_HIT ? CAP_UNCOVERED_SECRETS : 0);
	if (p != NO_HIT && !unprotects) {
		if (!(need & ~gives))
			h = p;
		gives &= ~CAP_WRITE;
	}
	if (s != NO_HIT && !reveals) {
		if (!(need & ~gives))
			h = s;
		gives &= ~(CAP_READ | CAP_EXECUTE);
	}
	if ((need & ~gives) && m->layer == NO_LAYER) {
		m->hit = h;
		m->layer = i;
	}
	m->caps &= gives;
	return true;
}

static long layer_cold(u32 i, void *ctx)
{
	struct matching *d = ctx;

	return !layer_step(d->c, d->m, d->need, i);
}

/* layers sets caps to the capabilities that all layers grant. */
static __always_inline void layers(struct matching *d, bool hot)
{
	d->m->caps = CAP_ALL;
	if (!hot) {
		bpf_loop(MAX_LAYERS, layer_cold, d, 0);
		return;
	}
	for (u32 i = 0; i < MAX_LAYERS; i++)
		if (!layer_step(d->c, d->m, d->need, i))
			break;
}

/* have returns the capabilities on the path that was followed. */
static __always_inline u32 have(struct match *m)
{
	return m->caps & m->linked;
}

/*
 * match follows a path. need selects only which layer the event names. Hot is the fastest variant, for the hook of every open.
 * The other one costs the verifier a tenth, in each of many programs.
 */
static __always_inline void match(struct walk *c, struct match *m, struct target *t, u32 need, bool hot)
{
	struct matching d = { .c = c, .m = m, .need = need };
	struct line *head = line_of(c->image, 0);

	m->status = WALK_BROKEN;
	m->caps = 0;
	m->linked = CAP_ALL;
	m->hit = NO_HIT;
	m->layer = NO_LAYER;
	if (!head || head->w[H_MAGIC] != IMAGE_MAGIC)
		return;
	for (u32 i = 0; i < 16; i++)
		c->header[i] = head->w[i];
	struct line *filter = line_of(c->image, head->w[H_FILTER]);
	if (!filter)
		return;
	for (u32 i = 0; i < FILTERS; i++)
		c->filter[i] = filter->q[i];
	if (hot)
		walk_up(c, t);
	else
		walk_up_loop(c, t);
	m->status = c->status;
	if (c->status == WALK_OK || c->status == WALK_DETACHED)
		m->status = where(c, c->status);
	m->depth = c->n;
	if (m->status != WALK_OK)
		return;
	for (u32 i = 0; i < MAX_WORDS; i++)
		m->starts[i] = m->state[i] = 0;
	for (u32 i = 0; i < MAX_TABLES; i++)
		m->decided[i] = NO_HIT;
	m->live = m->names = m->name = 0;
	m->stamp = 0;
	fence(c);
	enter(c, m, 0);
	bpf_loop(MAX_DEPTH, hot ? match_next_hot : match_next_cold, &d, 0);
	if (m->status == WALK_OK)
		layers(&d, hot);
	if (m->status == WALK_OK && m->names)
		follow_aliases(&d);
	if (m->status == WALK_OK && c->header[H_SEED] & SEED_LINKS)
		apply_hardlinks(c, m, t->dentry, need);
	fence(c);
	if (hot)
		changed_hot(c);
	else
		bpf_loop(MAX_DEPTH, changed_cold, &d, 0);
	if (m->status == WALK_OK)
		m->status = c->status;
}

#define MAX_ATTEMPTS 16

struct attempt {
	struct walk *c;
	struct match *m;
	struct target *t;
	u32 need;
};

static long attempt_step(u32 i, void *ctx)
{
	struct attempt *a = ctx;

	match(a->c, a->m, a->t, a->need, false);
	return a->m->status != WALK_BUSY;
}

#endif
