/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aliases: a file beneath a folder that is mounted at a second path has a second name there (policy.Alias). When the walk
 * down a path has passed such a folder, each alias is followed along the same components, from the state that a walk to the
 * second path would have reached. Rules about an alias can only remove capabilities, and only where the rules about the path
 * itself don't already decide the same.
 */
#ifndef TOOLGUARD_ALIAS_H
#define TOOLGUARD_ALIAS_H

#include "automaton.h"

/* next_alias begins with a path's next alias; false when there is none, and only then the walk's status is good. */
static __always_inline bool next_alias(struct walk *c, struct match *m)
{
	struct match *o = &c->other;
	u32 n = c->nth + 1;
	struct line *list = line_of(c->image, m->names), *entry = line_of(c->image, m->names + n / 16);

	if (!list || !entry)
		return false;
	if (n > list->w[0]) {
		m->status = o->status;
		if (!list->w[0])
			m->names = 0;
		return false;
	}
	u32 name = entry->w[n & 15];
	struct line *head = line_of(c->image, name + NAME_HEAD), *starts = line_of(c->image, name + NAME_STARTS);
	struct line *state = line_of(c->image, name + NAME_STATE), *decided = line_of(c->image, name + NAME_DECIDED);
	struct line *more = line_of(c->image, name + NAME_DECIDED + 1);
	if (!head || !starts || !state || !decided || !more)
		return false;
	c->nth = n;
	c->next = head->w[0];
	o->name = name;
	o->node = head->w[1];
	o->live = head->w[2];
	for (u32 i = 0; i < MAX_WORDS; i++) {
		o->starts[i] = starts->q[i];
		o->state[i] = state->q[i];
		c->counts[i] = ~0ULL;
	}
	for (u32 i = 0; i < 16; i++) {
		o->decided[i] = decided->w[i];
		o->decided[i + 16] = more->w[i];
	}
	return true;
}

/* count_bits advances by one component. A pattern that may start at both names adds a decision only where its match began
 * within the alias's own path: its first bit doesn't count after one component, its second one not after two. */
static __always_inline void count_bits(struct walk *c)
{
	struct line *common = line_of(c->image, c->other.name + NAME_COMMON), *finals = line_of(c->image, c->header[H_FINALS]);
	u64 carry = 0;

	if (!common || !finals)
		return;
	for (u32 i = 0; i < MAX_WORDS; i++) {
		u64 open = c->counts[i] & common->q[i] & ~finals->q[i];
		c->counts[i] = open << 1 | carry | ~common->q[i];
		carry = open >> 63;
	}
}

/* alias_layer_step removes the capabilities that the i-th layer's rules about the alias deny. As in layer_step, layer and hit name
 * the first that denied some of need. */
static long alias_layer_step(u32 i, void *ctx)
{
	struct matching *d = ctx;
	struct walk *c = d->c;
	struct match *m = d->m;

	if (i >= c->header[H_NLAYERS])
		return 1;
	struct line *l = line_of(c->image, c->header[H_LAYERS] + i / 4);
	if (!l) {
		m->caps = 0;
		return 1;
	}
	u32 taking = l->w[(i & 3) * 4 + 1], h = decider(&c->other, l->w[(i & 3) * 4]);
	u32 p = decider(&c->other, TAKING_PROTECT(taking)), s = secret(&c->other, TAKING_SECRETS(taking));
	u32 gives = h & HIT_KNOWN ? CAP_ALL : HIT_CAPS(h);
	bool unprotects = h != NO_HIT && HIT_UNPROTECT(h), reveals = h != NO_HIT && h & HIT_SECRET;
	if (!(p & HIT_KNOWN) && !unprotects) {
		if (!(d->need & ~gives))
			h = p;
		gives &= ~CAP_WRITE;
	}
	if (!(s & HIT_KNOWN) && !reveals) {
		if (!(d->need & ~gives))
			h = s;
		gives &= ~(CAP_READ | CAP_EXECUTE);
	}
	if ((d->need & ~gives) && m->layer == NO_LAYER) {
		m->hit = h;
		m->layer = i;
	}
	m->caps &= gives;
	return 0;
}

#define ALIAS_WORK 8 /* what a step of alias_step costs, in steps of affix_step */

static long alias_step(u32 i, void *ctx)
{
	struct matching *d = ctx;
	struct walk *c = d->c;

	if (!affordable(c, ALIAS_WORK)) {
		d->m->status = WALK_COSTLY;
		return 1;
	}
	if (!c->other.name)
		return !next_alias(c, d->m);
	count_bits(c);
	if (match_next(c, &c->other, c->next, false)) {
		c->next++;
		return 0;
	}
	bpf_loop(MAX_LAYERS, alias_layer_step, d, 0);
	c->other.name = 0;
	return 0;
}

/* follow_aliases is one loop over the components of all names: nested ones would be more calls than the verifier allows. */
static __always_inline void follow_aliases(struct matching *d)
{
	d->m->status = WALK_BROKEN;
	d->c->other.status = WALK_OK;
	d->c->other.name = d->c->nth = 0;
	bpf_loop(MAX_ALIASES * (MAX_DEPTH + 2), alias_step, d, 0);
}

#endif
