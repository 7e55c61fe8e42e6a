package fspath

import "math/bits"

// maxWords limits the components of all patterns in one table together, so that a lookup's state has a fixed size.
const (
	maxWords        = 32
	MaxPatternParts = maxWords * 64
)

// A lookup returns NoMatch where no entry decides.
const NoMatch int32 = -1

// Entry is an entry of a table: a path with everything beneath it, or a pattern BASE/**/LAST/NAME….
type Entry struct {
	Path  string   // canonical; the BASE of a pattern ("/" for the whole machine)
	Last  string   `json:",omitzero"` // LAST as written, for a pattern: a name, PREFIX* or *SUFFIX; "" for a literal path
	Names []string `json:",omitzero"` // the NAMEs after LAST
}

// Table decides which of several entries governs a path. It's plain arrays, so that the same table can run in the
// kernel: names are interned, literal paths are a trie over names, and patterns run bit-parallel with the walk.
//
// A pattern BASE/**/LAST/NAME… has one bit for LAST and one for each NAME, in the order of the entries. Its first bit may be set at
// any component once the walk has passed the trie node of BASE; every other bit is set when the one before it was set
// at the component before. If its last bit is set, this component matches. Bits of later entries are higher, so the
// highest match is the last entry.
type Table struct {
	entries  []*Entry
	literals []int32 // by their index in entries
	patterns []int32

	names nameTable
	edges edgeTable
	nodes []node // the root is nodes[0]

	words    int      // of a bit set
	sets     []uint64 // bit sets of that many words, named by the index of their first word
	nameSet  []int32  // by name: the bits that the name satisfies; -1 for none
	finals   []uint64
	bitEntry []int32 // by bit, for final bits: the entry
	prefixes affixes
	suffixes affixes
}

// node is a path that a literal entry or the BASE of a pattern names, or that lies above one.
type node struct {
	entry  int32 // the last literal entry here; NoMatch for none
	below  int32 // the first literal entry strictly beneath; NoMatch for none
	base   int32 // the first pattern with its BASE here or beneath; NoMatch for none
	starts int32 // the set of first bits of the patterns with their BASE here; -1 for none
}

// cursor is the state of a lookup.
type cursor struct {
	node   int32 // -1 when the walk has left the trie
	live   bool  // some pattern has started
	starts [maxWords]uint64
	state  [maxWords]uint64
}

// enter puts the cursor at a node of the trie.
func (t *Table) enter(c *cursor, node int32) {
	c.node = node
	if node < 0 || t.nodes[node].starts < 0 {
		return
	}
	c.live = true
	for i, w := range t.set(t.nodes[node].starts) {
		c.starts[i] |= w
	}
}

func (t *Table) set(at int32) []uint64 { return t.sets[at : int(at)+t.words] }

// step moves the cursor to the component name, whose hash is h.
func (t *Table) step(c *cursor, name string, h uint64) {
	id := t.names.find(name, h)
	if c.live {
		t.stepPatterns(c, name, id)
	}
	if c.node >= 0 {
		next := int32(-1)
		if id >= 0 {
			next = t.edges.find(c.node, id)
		}
		t.enter(c, next)
	}
}

func (t *Table) stepPatterns(c *cursor, name string, id int32) {
	var buf [maxWords]uint64
	mask := buf[:t.words]
	if id >= 0 && t.nameSet[id] >= 0 {
		copy(mask, t.set(t.nameSet[id]))
	}
	t.prefixes.collect(t, name, mask, false)
	t.suffixes.collect(t, name, mask, true)
	carry := uint64(0)
	for i := range mask {
		open := c.state[i] &^ t.finals[i]
		c.state[i] = (open<<1 | carry | c.starts[i]) & mask[i]
		carry = open >> 63
	}
}

// decides returns the entry that matches exactly at the cursor.
func (t *Table) decides(c *cursor) int32 {
	if c.node >= 0 && t.nodes[c.node].entry >= 0 {
		return t.nodes[c.node].entry
	}
	if c.live {
		for i := t.words - 1; i >= 0; i-- {
			if hit := c.state[i] & t.finals[i]; hit != 0 {
				return t.bitEntry[i*64+bits.Len64(hit)-1]
			}
		}
	}
	return NoMatch
}

// Find returns the index of the entry that decides a canonical path, and the number of components at which it matched. The
// entry is NoMatch when none does.
func (t *Table) Find(path string) (entry int32, depth int) { return t.FindBeneath(path, "") }

// FindBeneath is Find for the path that rest makes beneath dir: it's "", or begins with a slash.
func (t *Table) FindBeneath(dir, rest string) (entry int32, depth int) {
	if len(t.entries) == 0 {
		return NoMatch, 0
	}
	var c cursor
	t.enter(&c, 0)
	f := found{entry: t.decides(&c)}
	t.follow(&c, dir, &f)
	t.follow(&c, rest, &f)
	return f.entry, f.depth
}

// found is the state of a lookup: the entry that decides so far, the depth at which it matched, and the current depth.
type found struct {
	entry     int32
	depth, at int
}

// follow continues along path, which begins with a slash or is empty.
func (t *Table) follow(c *cursor, path string, f *found) {
	if len(path) <= 1 {
		return
	}
	start, h := 1, uint64(hashSeed)
	for i := 1; c.node >= 0 || c.live; i++ {
		if i < len(path) && path[i] != '/' {
			h = (h ^ uint64(path[i])) * hashPrime
			continue
		}
		f.at++
		t.step(c, path[start:i], h)
		if e := t.decides(c); e >= 0 {
			f.entry, f.depth = e, f.at
		}
		if i >= len(path) {
			return
		}
		start, h = i+1, hashSeed
	}
}
