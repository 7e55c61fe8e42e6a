/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled policy as the programs read it: an image, made by internal/loader/image, one map
 * of 64-byte lines for each session. Everything in it is found by line number, so that an image is one flat piece that is
 * complete before a session sees it and is exchanged as a whole.
 */
#ifndef TOOLGUARD_IMAGE_H
#define TOOLGUARD_IMAGE_H

#define MAX_DEPTH 128 /* policy.MaxDepth */
#define MAX_NAME 255
#define MAX_WORDS 8	/* of a set of pattern bits: 512 pattern components in all */
#define MAX_TABLES 32	/* fs, protect and secrets of every authority, and some to spare */
#define MAX_HITS 64	/* of a node: two of each table */
#define MAX_LAYERS 10	/* policy.NumAuthorities */

#define CAP_READ 1
#define CAP_CREATE 2
#define CAP_UPDATE 4
#define CAP_DELETE 8
#define CAP_EXECUTE 16
#define CAP_WRITE (CAP_CREATE | CAP_UPDATE | CAP_DELETE)
#define CAP_ALL 31

struct line {
	union {
		u64 q[8];
		u32 w[16];
	};
};

/* Line 0. */
enum header {
	H_MAGIC,
	H_SEED,	     /* seed of the names' hashes, times 256, plus the number of words of a set of pattern bits, and SEED_ flags */
	H_NAMES,     /* buckets of the literal names in patterns: first line */
	H_NAMES_MASK,
	H_EDGES,     /* buckets of edges: first line */
	H_EDGES_MASK,
	H_NODES,     /* nodes, four a line */
	H_HITS,	     /* hits of nodes, sixteen a line */
	H_BIT_HITS,  /* hits of final pattern bits, sixteen a line */
	H_FINALS,    /* the set of final pattern bits */
	H_FILTER,    /* of the names in patterns */
	H_PREFIX,    /* the root of the prefixes' trie, and of the suffixes' */
	H_SUFFIX,
	H_LAYERS,    /* layers, four a line */
	H_NLAYERS,
	H_GENERATION,
};
#define SEED_LINKS (1U << 31) /* some rules are about files with several hard links */
#define SEED_EXECS (1U << 30) /* executed programs are reported */
#define IMAGE_MAGIC 0x74673037 /* changes with the format */

/* A bucket holds four entries; one with c == 0 is empty. A name is {hash, length, line of its text, set}, an edge is
 * {node, hash of the name, node, length and text of the name}, an affix's edge {node, byte, node, set}. */
struct entry {
	u32 a, b, c, d;
};
#define EDGE_SAYS(d) ((d) & 1) /* the node has hits, patterns or aliases */
#define EDGE_LEN(d) ((d) >> 1 & 0x3fff)
#define EDGE_TEXT(d) ((d) >> 15) /* a line */

/* The filter: its first line has, by their folded bytes, the first ones of prefixes, the last ones of suffixes, and the first ones of the
 * remaining names. From the next line on, each of these bytes has a word, eight a line: for prefixes and suffixes the bits of the next two
 * bytes, for the remaining names those of their last bytes. */
enum filter { FILTER_PREFIX, FILTER_SUFFIX, FILTER_NAMES, FILTERS };
enum { MAY_BEGIN = 1, MAY_END = 2, MAY_ALL = 4 };
#define MAX_PROBES 4

struct node {
	u32 hits, nhits, starts, flags;
};
#define NODE_HITS(nhits) ((nhits) & 0xff)
#define NODE_NAMES(nhits) ((nhits) >> 8) /* the line of the list of aliases from this node on; 0: the parent's */
#define NODE_COMMAND(flags) ((flags) >> 8) /* the line of the program's record; 0: none */
#define NODE_BENEATH 1 /* strictly beneath are a literal rule, the BASE of a pattern, or a path with an alias */

/* A hit: the rule's number, its capabilities, its table, and for aliases whether it doesn't apply (HIT_GRANTS) or adds nothing to the
 * decision about the path itself (HIT_KNOWN). */
#define HIT_RULE(h) ((h) & 0x3ffff)
#define HIT_CAPS(h) (((h) >> 18) & CAP_ALL)
#define HIT_UNPROTECT(h) (((h) >> 23) & 1)
#define HIT_TABLE(h) (((h) >> 24) & (MAX_TABLES - 1))
#define HIT_GRANTS (1U << 29)
#define HIT_KNOWN (1U << 30)
#define HIT_SECRET (1U << 31) /* lifts secrets */
#define NO_HIT 0xffffffffU

/*
 * A list of aliases: their number, then the line of each. An alias begins with {components of the path that has it, node, whether
 * a pattern has started}, the state of a walk to it. The next lines are the bits of patterns that may start there, the bits that
 * are set, the bits of patterns that may start at both paths, and the hits that have decided, two lines.
 */
#define MAX_ALIASES 1024 /* policy.maxAliases */
enum name_lines { NAME_HEAD, NAME_STARTS, NAME_STATE, NAME_COMMON, NAME_DECIDED };

/* A file with several hard links that rules name is an edge of LINKED and its inode number. It leads to a line with the number of
 * these rules. The next lines have {the file system's device or 0, layer, hit, 0} for each rule, four a line. */
#define LINKED (1U << 31)
#define MAX_LINKED 64

#define TAKING_PROTECT(t) ((t) & 0xff)
#define TAKING_SECRETS(t) ((t) >> 8)

struct layer {
	u32 fs, taking; /* numbers of tables plus one; 0: none. taking is protect's, plus secrets' times 256 */
	u32 action;
	u32 commands; /* default action */
};

/*
 * A program's record: a line with the number of rules, then rules {layer, hit, list of arguments or 0, 0}, four a line. Of a layer's
 * rules, the first one decides that has no list, or whose list includes the program's name.
 * A list: the number of alternatives, the line of the names, then a line number for each alternative, sixteen words a line. An
 * alternative has at most MAX_ARGS bytes, a list at most MAX_ALTERNATIVES. Names: a line with their number, then {bytes, line} for
 * each permitted argv[0], with its NUL.
 */
#define MAX_EXEC 16 /* a power of two: levels of one execve (5, fs/exec.c) times layers with rules about arguments */
#define MAX_ARGS 4096
#define MAX_ALTERNATIVES 1024
#define MAX_CALLED 7
#define MAX_COMMANDS 256
enum { UNDECLARED, DENY, ALLOW };

#endif
