package policy

import "math/bits"

// MaxDepth and MaxPath are as far as a path is followed; beyond them is denied. The kernel's matcher counts the components alone: by one
// call nobody names a longer path (PATH_MAX), but from folder to folder one gets there.
const (
	MaxDepth = 128
	MaxPath  = 4096
)

// maxWords limits the components of all patterns in one table together, so that a lookup's state has a fixed size.
const (
	maxWords        = 32
	maxPatternParts = maxWords * 64
)

// NoMatch and Unresolvable are what Lookup returns instead of a rule.
const (
	NoMatch      int32 = -1
	Unresolvable int32 = -2
)

// FSTable decides which rule of one layer governs a path. It's plain arrays, so that the same table can run in the
// kernel: names are interned, literal rules are a trie over names, and patterns run bit-parallel beside the walk.
//
// A pattern BASE/**/LAST/NAME… has one bit for LAST and one for each NAME, in rule order. Its first bit may be set at
// any component once the walk has passed the trie node of BASE; every other bit is set when the one before it was set
// at the component before. Its last bit set means: this component is hit. Bits of later rules are higher, so the
// highest hit is the last rule.
type FSTable struct {
	rules    []*Rule
	literals []*Rule
	patterns []*Rule
	first    int32 // Index of rules[0]; the rules of a table are consecutive

	names nameTable
	edges edgeTable
	nodes []fsNode // the root is nodes[0]

	words    int      // of a bit set
	sets     []uint64 // bit sets of that many words, named by the index of their first word
	nameSet  []int32  // by name: the bits that the name satisfies; -1 for none
	finals   []uint64
	bitRule  []int32 // by bit, for final bits: the rule
	prefixes affixes
	suffixes affixes
}

// fsNode is a path that a literal rule or the BASE of a pattern names, or that lies above one.
type fsNode struct {
	rule   int32 // the last literal rule here; NoMatch for none
	below  int32 // the first literal rule strictly beneath; NoMatch for none
	base   int32 // the first pattern with its BASE here or beneath; NoMatch for none
	starts int32 // the set of first bits of the patterns with their BASE here; -1 for none
}

// cursor is how far a lookup has come.
type cursor struct {
	node   int32 // -1 when the walk has left the trie
	live   bool  // some pattern has started
	starts [maxWords]uint64
	state  [maxWords]uint64
}

// enter puts the cursor at a node of the trie.
func (t *FSTable) enter(c *cursor, node int32) {
	c.node = node
	if node < 0 || t.nodes[node].starts < 0 {
		return
	}
	c.live = true
	for i, w := range t.set(t.nodes[node].starts) {
		c.starts[i] |= w
	}
}

func (t *FSTable) set(at int32) []uint64 { return t.sets[at : int(at)+t.words] }

// step moves the cursor to the component name, whose hash is h.
func (t *FSTable) step(c *cursor, name string, h uint64) {
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

func (t *FSTable) stepPatterns(c *cursor, name string, id int32) {
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

// decides is the rule that matches exactly at the cursor.
func (t *FSTable) decides(c *cursor) int32 {
	if c.node >= 0 && t.nodes[c.node].rule >= 0 {
		return t.nodes[c.node].rule
	}
	if c.live {
		for i := t.words - 1; i >= 0; i-- {
			if hit := c.state[i] & t.finals[i]; hit != 0 {
				return t.bitRule[i*64+bits.Len64(hit)-1]
			}
		}
	}
	return NoMatch
}

// Lookup is the Index of the rule that decides a canonical path, and the number of components at which it matched.
// The rule is NoMatch when none does, and Unresolvable when path is too long, too deep or not canonical: to be denied.
func (t *FSTable) Lookup(path string) (rule int32, depth int) {
	if !resolvable(path) {
		return Unresolvable, 0
	}
	return t.find(path)
}

// find is Lookup for a path that is known to be resolvable. t may be nil.
func (t *FSTable) find(path string) (rule int32, depth int) {
	if t == nil || len(t.rules) == 0 {
		return NoMatch, 0
	}
	var c cursor
	t.enter(&c, 0)
	f := found{rule: t.decides(&c)}
	t.follow(&c, path, &f)
	return f.rule, f.depth
}

// findBeneath is find for the path that rest makes beneath dir: it's "", or begins with a slash.
func (t *FSTable) findBeneath(dir, rest string) (rule int32, depth int) {
	if t == nil || len(t.rules) == 0 {
		return NoMatch, 0
	}
	var c cursor
	t.enter(&c, 0)
	f := found{rule: t.decides(&c)}
	t.follow(&c, dir, &f)
	t.follow(&c, rest, &f)
	return f.rule, f.depth
}

// found is the rule that decides as far as a lookup has come, where it matched, and how far that is.
type found struct {
	rule      int32
	depth, at int
}

// follow goes on along path, which begins with a slash or is empty.
func (t *FSTable) follow(c *cursor, path string, f *found) {
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
		if r := t.decides(c); r >= 0 {
			f.rule, f.depth = r, f.at
		}
		if i >= len(path) {
			return
		}
		start, h = i+1, hashSeed
	}
}

// resolvable says whether a matcher can follow path: absolute, clean, and within the limits.
func resolvable(path string) bool {
	if len(path) == 0 || path[0] != '/' || len(path) > MaxPath {
		return false
	}
	if len(path) == 1 {
		return true
	}
	depth, start := 0, 1
	for i := 1; ; i++ {
		if i < len(path) && path[i] != '/' {
			if path[i] == 0 {
				return false
			}
			continue
		}
		depth++
		switch i - start {
		case 0:
			return false
		case 1:
			if path[start] == '.' {
				return false
			}
		case 2:
			if path[start] == '.' && path[start+1] == '.' {
				return false
			}
		}
		if i == len(path) {
			return depth <= MaxDepth
		}
		start = i + 1
	}
}
