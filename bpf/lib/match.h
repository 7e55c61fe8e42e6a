/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a session may do with a file: climbs from the dentry to the root of the machine's tree, across mounts and
 * never relative to the task's own root, then follows the names down through the image. It decides as
 * policy.Compiled.CheckFS does, on the same automaton; nothing is cut off: a path that can't be followed to its end is
 * one that nothing is allowed on.
 *
 * The names and parents are those of one moment: every dentry's d_seq is taken on the way up and looked at again after
 * the way down, and d_seq changes when a dentry is renamed or moved (__d_move, fs/dcache.c).
 *
 * Memory: an LSM program may be preempted by one of another task on the same CPU, so what it works with belongs to the
 * task. It lies in a map also for the verifier's sake, which then takes a loop's state for unknown and is done at once.
 */
#ifndef TOOLGUARD_MATCH_H
#define TOOLGUARD_MATCH_H

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
	WALK_COSTLY,	/* so many other names and patterns that following them would keep the processor too long */
};

struct match {
	u32 status;
	u32 caps; /* by the path, and what the file itself is held to, whatever its path: have */
	u32 held;
	u32 depth;
	u32 hit, layer; /* who was the first to withhold something, NO_HIT and NO_LAYER: nobody */
	u32 cover[MAX_LAYERS]; /* what each layer gives, protect and secrets aside: what a directory takes along, or would gain */
	u32 node;   /* NO_NODE: left the trie */
	u32 live;   /* some pattern has started */
	u32 names;  /* the line of the list of other names; 0: none */
	u32 name;   /* the line of the other name that is followed; 0: the path's own */
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

#define MAX_CLIMB (MAX_DEPTH + 64) /* and that many mounts on the way */

struct climb {
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

struct descent {
	struct climb *c;
	struct match *m;
	u32 need;
};

/*
 * LOAD reads a field of a kernel struct at a plain address. Where the kernel can tell the verifier what lies there
 * (bpf_rdonly_cast, Linux 6.2) that is one load; before, it's a call. An address that can't be read gives 0 in both, and
 * nothing here is right with a 0. A name's bytes can always be read: the program is in an RCU section, until whose end none is freed.
 */
#ifndef bpf_ksym_exists
#define bpf_ksym_exists(sym) (!!(sym))
#endif
#define LOAD(type, ptr, field)                                                                              \
	({                                                                                                  \
		__typeof__(((type *)0)->field) v_;                                                          \
		if (bpf_ksym_exists(bpf_rdonly_cast)) {                                                     \
			v_ = ((type *)bpf_rdonly_cast((void *)(ptr), bpf_core_type_id_kernel(type)))->field; \
		} else {                                                                                    \
			__typeof__(v_) read_ = 0;                                                           \
			bpf_probe_read_kernel(&read_, sizeof(read_),                                        \
					      (void *)((u64)(ptr) + bpf_core_field_offset(type, field)));   \
			v_ = read_;                                                                         \
		}                                                                                           \
		v_;                                                                                         \
	})

/*
 * affordable says whether so many more steps may be taken for a question. A policy may come from who is held by it, and beneath
 * folders of its choice each of 1,024 other names and 510 ends of a name can be followed, while nobody else gets the processor.
 * This many steps take some milliseconds; honest policies take some hundred.
 */
#define MAX_WORK (1 << 17)

static __always_inline bool affordable(struct climb *c, u32 steps)
{
	c->work += steps;
	if (c->work <= MAX_WORK)
		return true;
	c->status = WALK_COSTLY;
	return false;
}

/* bounded masks an index where the verifier sees it: the compiler would leave out a mask that it knows to change nothing. */
#define bounded(i, mask)                     \
	do {                                 \
		asm volatile("" : "+r"(i)); \
		(i) &= (mask);               \
	} while (0)

static __always_inline struct line *line_of(u32 image, u32 at)
{
	u32 i = image + at;
	return bpf_map_lookup_elem(&images, &i);
}

/* The registers of a system call, as each architecture has them, by which an object for both knows where it is. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs___amd64 {
	unsigned long si, dx, orig_ax;
};
struct pt_regs___arm64 {
	u64 regs[31];
	int syscallno;
};
#pragma clang attribute pop
#define ON_AMD64 bpf_core_field_exists(struct pt_regs___amd64, orig_ax)

/*
 * What is read of a dentry is read between two looks at its d_seq. amd64 loads in that order, arm64 needn't: there an address that
 * depends on the first look's value is loaded from after it, and an exchange, which the kernel has both acquire and release,
 * is a barrier for all before and after it. amd64's verifier leaves both out.
 */
static __always_inline u64 after(u64 look, u64 address)
{
	if (ON_AMD64)
		return address;
	asm volatile("%0 &= 0" : "+r"(look));
	return address + look;
}

static __always_inline void fence(struct climb *c)
{
	if (!ON_AMD64)
		__sync_lock_test_and_set(&c->order, 0);
}

#define PROC_SUPER_MAGIC 0x9fa0 /* uapi/linux/magic.h */

/* climb_step goes one dentry up, or from a mount's root to where it's mounted; false when there is no further. */
static __always_inline bool climb_step(struct climb *c)
{
	u64 dentry = c->dentry, mount = c->mount, up;
	u32 n = c->n, seq;

	if (dentry == c->root) {
		up = (u64)LOAD(struct mount, mount, mnt_parent);
		if (up == mount) {
			c->status = WALK_OK;
			return false;
		}
		u64 sb = (u64)LOAD(struct mount, mount, mnt.mnt_sb);
		/* Not where something beneath /proc is mounted: what lies in that is no process's folder. */
		if (LOAD(struct super_block, sb, s_magic) == PROC_SUPER_MAGIC && (u64)LOAD(struct super_block, sb, s_root) == dentry)
			c->proc = n;
		c->dentry = (u64)LOAD(struct mount, mount, mnt_mountpoint);
		c->mount = up;
		c->root = (u64)LOAD(struct mount, up, mnt.mnt_root);
		return true;
	}
	seq = LOAD(struct dentry, dentry, d_seq.seqcount.sequence);
	up = (u64)LOAD(struct dentry, after(seq, dentry), d_parent);
	if (up == dentry || !up || n >= MAX_DEPTH || seq & 1) {
		c->status = up == dentry ? WALK_DETACHED : !up ? WALK_BROKEN : n >= MAX_DEPTH ? WALK_DEEP : WALK_BUSY;
		return false;
	}
	c->n = n + 1;
	c->dentry = up;
	bounded(n, MAX_DEPTH - 1);
	c->chain[n] = dentry;
	c->seq[n] = seq;
	return true;
}

static __always_inline void climb_from(struct climb *c, struct target *t)
{
	c->dentry = t->dentry;
	c->mount = t->mnt - bpf_core_field_offset(struct mount, mnt);
	c->root = (u64)LOAD(struct mount, c->mount, mnt.mnt_root);
	c->n = 0;
	c->proc = 0;
	c->status = WALK_DEEP;
}

/* climb goes up to the root of the tree that the mount is in. A plain loop is quicker than bpf_loop, whose calls cost as
 * much as a step does; as a function of its own the verifier doesn't follow what comes after from each of its ends. */
__noinline int climb(struct climb *c, struct target *t)
{
	if (!c || !t)
		return 0;
	climb_from(c, t);
	for (u32 i = 0; i < MAX_CLIMB; i++)
		if (!climb_step(c))
			break;
	return 0;
}

static long climb_on(u32 i, void *ctx)
{
	return !climb_step(*(struct climb **)ctx);
}

/* climb_again is climb where it may take a little longer: the verifier has less to look at. */
__noinline int climb_again(struct climb *c, struct target *t)
{
	if (!c || !t)
		return 0;
	climb_from(c, t);
	bpf_loop(MAX_CLIMB, climb_on, &c, 0);
	return 0;
}

/* find looks an entry up in the buckets that begin at line first, and leaves it in found. The image keeps every entry within
 * MAX_PROBES of its place, and no bucket before it that isn't full. */
static __always_inline bool find(struct climb *c, u32 table, u32 hash, u32 a, u32 b)
{
	u32 first = c->header[table & 15], mask = c->header[(table + 1) & 15];
	for (u32 probe = 0; probe < MAX_PROBES; probe++) {
		struct line *l = line_of(c->image, first + ((hash + probe) & mask));
		if (!l)
			return false;
		for (u32 i = 0; i < 4; i++) {
			if (!l->w[4 * i + 2])
				return false;
			if (l->w[4 * i] == a && l->w[4 * i + 1] == b) {
				c->found.to = l->w[4 * i + 2];
				c->found.set = l->w[4 * i + 3];
				return true;
			}
		}
	}
	return false;
}

/* words_of is a struct of the kernel's that is nothing but words: what a name is loaded as. */
#define NAME_WORDS 8
struct pt_regs {
	unsigned long r[NAME_WORDS];
};

static __always_inline u64 hash_word(u64 h, u64 word)
{
	h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
	return h ^ h >> 29;
}

/* hash_end has the highest bits of a product, which depend on all bits, choose the bucket. */
static __always_inline u32 hash_end(u64 h)
{
	return __builtin_bswap64(h);
}

/* edge_hash spreads numbers that follow each other on both sides; what it still spreads badly another seed may spread well. */
static __always_inline u32 edge_hash(struct climb *c, u32 from, u32 label)
{
	return hash_end(from * (0x9E3779B97F4A7C15ULL ^ (u64)c->header[H_SEED] << 50) + label * 0x6A09E667F3BCC909ULL);
}

/* read_name takes a dentry's name, padded with zeros to whole words, and its hash. 0: it can't be had. */
static __always_inline u32 read_name(struct climb *c, u64 dentry)
{
	u32 len = LOAD(struct dentry, dentry, d_name.len);
	u64 name = (u64)LOAD(struct dentry, dentry, d_name.name);
	if (len == 0 || len > MAX_NAME)
		return 0;
	len &= 0xff;
	u64 h = c->header[H_SEED] + len;
	u32 whole = len >> 3;
	if (bpf_ksym_exists(bpf_rdonly_cast) && !(name & 7) && whole < NAME_WORDS) {
		struct pt_regs *w = bpf_rdonly_cast((void *)name, bpf_core_type_id_kernel(struct pt_regs));
		for (u32 i = 0; i < NAME_WORDS; i++) {
			u64 v = w->r[i];
			if (i >= whole) {
				v &= (1ULL << ((len & 7) * 8)) - 1;
				c->name[i] = v;
				if (len & 7)
					h = hash_word(h, v);
				break;
			}
			c->name[i] = v;
			h = hash_word(h, v);
		}
	} else {
		c->name[whole & 31] = 0;
		if (bpf_probe_read_kernel(c->name, len, (void *)name))
			return 0;
		for (u32 i = 0; i < 32; i++) {
			if (i * 8 >= len)
				break;
			h = hash_word(h, c->name[i]);
		}
	}
	c->hash = hash_end(h);
	return len;
}

/* same_name compares the name read with one of the image's. */
static __always_inline bool same_name(struct climb *c, u32 text, u32 len)
{
	for (u32 l = 0; l < 4; l++) {
		if (l * 64 >= len)
			break;
		struct line *t = line_of(c->image, text + l);
		if (!t)
			return false;
		for (u32 i = 0; i < 8; i++) {
			if (l * 64 + i * 8 >= len)
				break;
			if (t->q[i] != c->name[l * 8 + i])
				return false;
		}
	}
	return true;
}

static __always_inline void add_set(struct climb *c, u32 set)
{
	struct line *l = set ? line_of(c->image, set) : NULL;
	if (!l)
		return;
	for (u32 i = 0; i < MAX_WORDS && i < (c->header[H_SEED] & 0xff); i++)
		c->mask[i] |= l->q[i];
}

/* affix_step follows a name's next byte in the trie of prefixes, or of suffixes from the name's end. */
static long affix_step(u32 i, void *ctx)
{
	struct climb *c = *(struct climb **)ctx;

	if (i >= c->len || !affordable(c, 1))
		return 1;
	u32 at = c->backwards ? c->len - 1 - i : i;
	u8 b = ((u8 *)c->name)[at & 0xff];
	if (!find(c, H_EDGES, edge_hash(c, c->affix, b), c->affix, b))
		return 1;
	add_set(c, c->found.set);
	c->affix = c->found.to;
	return 0;
}

/* follow_affix adds the sets of every prefix of the name read, or of every suffix. */
__noinline int follow_affix(struct climb *c, u32 root, u32 backwards)
{
	if (!c)
		return 0;
	c->affix = root;
	c->backwards = backwards;
	bpf_loop(MAX_NAME, affix_step, &c, 0);
	return 0;
}

/* fold is a byte's bit in a filter: capitals have those of small letters. */
static __always_inline u32 fold(u8 b)
{
	return (b & 31) | (b >> 1 & 32);
}

/* may says what of a name may be some pattern's, by its first and last byte: its beginning, its end, all of it. */
static __always_inline u32 may(struct climb *c, u8 first, u8 last)
{
	u32 f = fold(first), l = fold(last);
	u64 beginning = c->filter[FILTER_PREFIX] >> f, end = c->filter[FILTER_SUFFIX] >> l;
	u32 some = (beginning & MAY_BEGIN) | (end << 1 & MAY_END);

	if (c->filter[FILTER_NAMES] >> f & 1) {
		struct line *ends = line_of(c->image, c->header[H_FILTER] + 1 + f / 8);
		if (!ends || ends->q[f & 7] >> l & 1)
			some |= MAY_ALL;
	}
	return some;
}

static __always_inline void hit(struct match *m, u32 h)
{
	if (h & HIT_GRANTS && m->name)
		return;
	m->decided[HIT_TABLE(h)] = h;
}

static __always_inline u32 lowest_bit(u64 v)
{
	u64 low = v & -v;
	return (!!(low & 0xAAAAAAAAAAAAAAAAULL)) | (!!(low & 0xCCCCCCCCCCCCCCCCULL)) << 1 |
	       (!!(low & 0xF0F0F0F0F0F0F0F0ULL)) << 2 | (!!(low & 0xFF00FF00FF00FF00ULL)) << 3 |
	       (!!(low & 0xFFFF0000FFFF0000ULL)) << 4 | (!!(low & 0xFFFFFFFF00000000ULL)) << 5;
}

/* hit_step takes the hit of the lowest final bit that is left. Later rules have higher bits, so the last one stays. */
static long hit_step(u32 i, void *ctx)
{
	struct descent *d = ctx;
	struct climb *c = d->c;
	u32 word = c->word & (MAX_WORDS - 1);

	if (!affordable(c, 1))
		return 1;
	if (!c->mask[word]) {
		c->word = word + 1;
		return word + 1 >= (c->header[H_SEED] & 0xff);
	}
	u32 bit = word * 64 + lowest_bit(c->mask[word]);
	c->mask[word] &= c->mask[word] - 1;
	struct line *l = line_of(c->image, c->header[H_BIT_HITS] + bit / 16);
	if (!l)
		return 0;
	u32 h = l->w[bit & 15];
	if (d->m->name && !(c->counts[word] >> (bit & 63) & 1))
		h |= HIT_KNOWN;
	hit(d->m, h);
	return 0;
}

/* take_hits takes the hits of all final bits in mask. */
__noinline int take_hits(struct climb *c, struct match *m)
{
	if (!c || !m)
		return 0;
	struct descent d = { .c = c, .m = m };

	c->word = 0;
	bpf_loop(MAX_WORDS * 65, hit_step, &d, 0);
	return 0;
}

/* step_patterns moves the patterns' bits on by the name read, of which may says what can be some pattern's. */
__noinline int step_patterns(struct climb *c, struct match *m, u32 some)
{
	u64 carry = 0, hits = 0;

	if (!c || !m)
		return 0;
	u32 words = c->header[H_SEED] & 0xff;

	for (u32 i = 0; i < MAX_WORDS; i++)
		c->mask[i] = 0;
	if (some & MAY_ALL && find(c, H_NAMES, c->hash, c->hash, c->len)) {
		u32 set = c->found.set;
		if (same_name(c, c->found.to, c->len))
			add_set(c, set);
	}
	if (some & MAY_BEGIN)
		follow_affix(c, c->header[H_PREFIX], 0);
	if (some & MAY_END)
		follow_affix(c, c->header[H_SUFFIX], 1);
	struct line *finals = line_of(c->image, c->header[H_FINALS]);
	if (!finals)
		return 0;
	for (u32 i = 0; i < MAX_WORDS && i < words; i++) {
		u64 open = m->state[i] & ~finals->q[i];
		m->state[i] = (open << 1 | carry | m->starts[i]) & c->mask[i];
		carry = open >> 63;
		c->mask[i] = m->state[i] & finals->q[i];
		hits |= c->mask[i];
	}
	if (hits)
		take_hits(c, m);
	return 0;
}

/* node_hit takes a node's i-th hit. */
static __always_inline void node_hit(struct climb *c, struct match *m, u32 i)
{
	u32 at = c->hits + i;
	struct line *l = line_of(c->image, c->header[H_HITS] + at / 16);

	if (l)
		hit(m, l->w[at & 15]);
}

#define FEW_HITS 4

static long more_hits(u32 i, void *ctx)
{
	struct descent *d = ctx;

	node_hit(d->c, d->m, FEW_HITS + i);
	return 0;
}

/* enter puts the walk at a node of the trie. Most nodes have few hits: those are taken without a call. */
__noinline int enter(struct climb *c, struct match *m, u32 node)
{
	if (!c || !m)
		return 0;
	struct line *l = line_of(c->image, c->header[H_NODES] + node / 4);
	m->node = node;
	if (!l) {
		m->status = WALK_BROKEN;
		return 0;
	}
	u32 n = l->w[(node & 3) * 4 + 1], starts = l->w[(node & 3) * 4 + 2];
	c->hits = l->w[(node & 3) * 4];
	if (NODE_NAMES(n)) {
		m->names = NODE_NAMES(n);
		n = NODE_HITS(n);
	}
	if (starts) {
		struct line *s = line_of(c->image, starts);
		m->live = 1;
		if (s)
			for (u32 i = 0; i < MAX_WORDS; i++)
				m->starts[i] |= s->q[i];
	}
	for (u32 i = 0; i < FEW_HITS; i++) {
		if (i >= n)
			return 0;
		node_hit(c, m, i);
	}
	if (n > MAX_HITS)
		m->status = WALK_BROKEN;
	else if (n > FEW_HITS) {
		struct descent d = { .c = c, .m = m };
		bpf_loop(n - FEW_HITS, more_hits, &d, 0);
	}
	return 0;
}

/*
 * members has every task of every session by its address, for what can't ask for its label: whose folder in /proc it is, since the
 * kernel hands labels out for tasks that it vouches for only; and which session a task leaves as it's freed, since that may be
 * done in an interrupt, and before Linux 6.2 there is no label where what was interrupted was being handed one itself
 * (bpf_task_storage_trylock, kernel/bpf/bpf_task_storage.c).
 */
struct member {
	u64 session; /* 0: none any more */
	u32 slot;
	u16 inside; /* as in its label */
	u16 exited;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, u64);
	__type(value, struct member);
} members SEC(".maps");

/* is_own says whether what lies in /proc itself is the folder of one of the session's processes. A policy calls each of them
 * "self", and so does what it allows there. */
__noinline bool is_own(struct climb *c, u64 dentry)
{
	if (!c)
		return false;
	u64 inode = (u64)LOAD(struct dentry, dentry, d_inode);
	u64 pid = (u64)LOAD(struct proc_inode, inode - bpf_core_field_offset(struct proc_inode, vfs_inode), pid);
	u64 first = (u64)LOAD(struct pid, pid, tasks[PIDTYPE_TGID].first);
	u64 task = first - bpf_core_field_offset(struct task_struct, pid_links[PIDTYPE_TGID]);
	struct member *m = first ? bpf_map_lookup_elem(&members, &task) : NULL;

	return m && m->session == c->session && !m->inside;
}

static __always_inline u32 own_process(struct climb *c)
{
	u64 word = 'f' << 24 | 'l' << 16 | 'e' << 8 | 's';
	u64 h = hash_word(c->header[H_SEED] + 4, word);

	c->name[0] = word;
	c->hash = hash_end(h);
	return 4;
}

/* The pieces of a step, for the verifier to look at each once: see match. */
__noinline u32 read_name_cold(struct climb *c, u64 dentry)
{
	return c ? read_name(c, dentry) : 0;
}

__noinline bool find_cold(struct climb *c, u32 table, u32 hash, u32 a, u32 b)
{
	return c && find(c, table, hash, a, b);
}

__noinline bool same_name_cold(struct climb *c, u32 text, u32 len)
{
	return c && same_name(c, text, len);
}

/* no_pattern is step_patterns by a name that is no pattern's. */
static __always_inline void no_pattern(struct match *m)
{
	for (u32 i = 0; i < MAX_WORDS; i++)
		m->state[i] = 0;
}

#define BYTE(address) (*(u8 *)bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(struct pt_regs)))

/* strange says that no pattern can know a dentry's name, by as little of it as tells that. */
static __always_inline bool strange(struct climb *c, u64 dentry)
{
	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return false;
	u32 len = LOAD(struct dentry, dentry, d_name.len);
	u64 name = (u64)LOAD(struct dentry, dentry, d_name.name);

	return len - 1 < MAX_NAME && !may(c, BYTE(name), BYTE(name + len - 1));
}

/* descend follows the i-th name from the root; false when no rule can match any deeper. */
static __always_inline bool descend(struct climb *c, struct match *m, u32 i, bool hot)
{
	u32 n = c->n, len;
	bool known;

	if (i >= n)
		return false;
	u64 dentry = c->chain[(n - 1 - i) & (MAX_DEPTH - 1)];
	bool process = n - i == c->proc; /* 0: there is none */
	if (hot && m->node == NO_NODE && !process && strange(c, dentry)) {
		no_pattern(m);
		return true;
	}
	len = hot ? read_name(c, dentry) : read_name_cold(c, dentry);
	if (!len) {
		m->status = WALK_BROKEN;
		return false;
	}
	if (process && is_own(c, dentry))
		len = own_process(c);
	c->len = len;
	if (m->live) {
		u32 some = may(c, ((u8 *)c->name)[0], ((u8 *)c->name)[(len - 1) & 0xff]);
		if (some)
			step_patterns(c, m, some);
		else
			no_pattern(m);
	}
	if (m->node != NO_NODE) {
		u32 from = m->node, h = edge_hash(c, from, c->hash);
		known = hot ? find(c, H_EDGES, h, from, c->hash) : find_cold(c, H_EDGES, h, from, c->hash);
		u32 to = c->found.to, name = c->found.set;
		if (known && EDGE_LEN(name) == len)
			known = hot ? same_name(c, EDGE_TEXT(name), len) : same_name_cold(c, EDGE_TEXT(name), len);
		else
			known = false;
		m->node = known ? to : NO_NODE;
		if (known && EDGE_SAYS(name))
			enter(c, m, to);
	}
	return m->node != NO_NODE || m->live;
}

static long descend_hot(u32 i, void *ctx)
{
	struct descent *d = ctx;

	return !descend(d->c, d->m, i, true);
}

static long descend_cold(u32 i, void *ctx)
{
	struct descent *d = ctx;

	return !descend(d->c, d->m, i, false);
}

/* changed says whether a dentry isn't where it was on the way up any more. */
static __always_inline bool changed(struct climb *c, u32 i)
{
	i &= MAX_DEPTH - 1;
	return LOAD(struct dentry, c->chain[i], d_seq.seqcount.sequence) != c->seq[i];
}

static long changed_cold(u32 i, void *ctx)
{
	struct descent *d = ctx;
	struct climb *c = d->c;

	if (i >= c->n)
		return 1;
	if (changed(c, i))
		c->status = WALK_BUSY;
	d->m->stamp += hash_word(c->chain[i & (MAX_DEPTH - 1)], c->seq[i & (MAX_DEPTH - 1)]);
	return 0;
}

static __always_inline void changed_hot(struct climb *c)
{
	for (u32 i = 0; i < MAX_DEPTH; i++) {
		if (i >= c->n)
			break;
		if (changed(c, i))
			c->status = WALK_BUSY;
	}
}

#define MAX_ATTEMPTS 16
#define NO_LAYER 0xffffffffU

/* Beside what a layer gives: the rule lifts protect, protect doesn't cover; the same of secrets. policy's lifted, uncovered and brings. */
#define CAP_LIFTED 128
#define CAP_UNCOVERED 64
#define CAP_LIFTED_SECRETS 512
#define CAP_UNCOVERED_SECRETS 256
#define CAP_BRINGS (CAP_CREATE | CAP_LIFTED | CAP_UNCOVERED)

/*
 * where tells what tree a climb ended in. The kernel's own mounts belong to no namespace and say so with an error
 * (MNT_NS_INTERNAL, fs/mount.h): what lies there has no path. Any other tree than the session's is one that the policy
 * doesn't speak of: a detached mount, another container's.
 */
static __always_inline u32 where(struct climb *c, u32 status)
{
	u64 ns = (u64)LOAD(struct mount, c->mount, mnt_ns);

	if (ns >= (u64)-4095)
		return WALK_INTERNAL;
	if (status != WALK_OK || !ns)
		return WALK_DETACHED;
	return LOAD(struct mnt_namespace, ns, ns.inum) == c->mount_ns ? WALK_OK : WALK_DETACHED;
}

/* decider is what decided in a table, given its number plus one. */
static __always_inline u32 decider(struct match *m, u32 table)
{
	return table ? m->decided[(table - 1) & (MAX_TABLES - 1)] : NO_HIT;
}

/* secret is what decided in a table of secrets: NO_HIT where that's an exception. */
static __always_inline u32 secret(struct match *m, u32 table)
{
	u32 h = decider(m, table);

	return HIT_CAPS(h) & CAP_READ ? NO_HIT : h;
}

/* layer_step takes away what the i-th layer doesn't give, by which rules decided; false when there is no further. Where that's some of
 * need, layer and hit say who was the first to. */
static __always_inline bool layer_step(struct climb *c, struct match *m, u32 need, u32 i)
{
	if (i >= c->header[H_NLAYERS] || i >= MAX_LAYERS)
		return false;
	struct line *l = line_of(c->image, c->header[H_LAYERS] + i / 4);
	if (!l) {
		m->caps = 0;
		return false;
	}
	u32 taking = l->w[(i & 3) * 4 + 1], stance = l->w[(i & 3) * 4 + 2];
	u32 h = decider(m, l->w[(i & 3) * 4]), gives = CAP_ALL;
	bool unprotects = false, reveals = false;
	if (stance != UNDECLARED) {
		if (h != NO_HIT) {
			gives = HIT_CAPS(h);
			unprotects = HIT_UNPROTECT(h);
			reveals = h & HIT_SECRET;
		} else if (stance != ALLOW) {
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
	struct descent *d = ctx;

	return !layer_step(d->c, d->m, d->need, i);
}

/* layers leaves in caps what all layers together give. */
static __always_inline void layers(struct descent *d, bool hot)
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

/* have is what there is on what was followed. */
static __always_inline u32 have(struct match *m)
{
	return m->caps & m->held;
}

#include "alias.h"
#include "hardlink.h"

/*
 * match follows a path. need says what it's for: only which layer is named depends on it. Hot, it's as quick as it can be,
 * for the hook that every open goes through; otherwise the verifier has a tenth to look at, in every program of many.
 */
static __always_inline void match(struct climb *c, struct match *m, struct target *t, u32 need, bool hot)
{
	struct descent d = { .c = c, .m = m, .need = need };
	struct line *head = line_of(c->image, 0);

	m->status = WALK_BROKEN;
	m->caps = 0;
	m->held = CAP_ALL;
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
		climb(c, t);
	else
		climb_again(c, t);
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
	bpf_loop(MAX_DEPTH, hot ? descend_hot : descend_cold, &d, 0);
	if (m->status == WALK_OK)
		layers(&d, hot);
	if (m->status == WALK_OK && m->names)
		follow_names(&d);
	if (m->status == WALK_OK && c->header[H_SEED] & SEED_LINKS)
		hold(c, m, t->dentry, need);
	fence(c);
	if (hot)
		changed_hot(c);
	else
		bpf_loop(MAX_DEPTH, changed_cold, &d, 0);
	if (m->status == WALK_OK)
		m->status = c->status;
}

struct attempt {
	struct climb *c;
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
