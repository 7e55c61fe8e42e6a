package fspath

// FNV-1a over the bytes of a name.
const (
	hashSeed  = 14695981039346656037
	hashPrime = 1099511628211
)

func hashName(s string) uint64 {
	h := uint64(hashSeed)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return h
}

// nameTable interns the names that entries mention: an open-addressed table. A name that only looks like one of them by
// its hash is distinguished by its bytes.
type nameTable struct {
	slots []int32 // id+1; 0 is empty; a power of two, at most half full
	names []string
}

// newNameTable makes a table that is right for n names; it grows for more.
func newNameTable(n int) nameTable {
	return nameTable{slots: make([]int32, tableSize(n)), names: make([]string, 0, n)}
}

func (t *nameTable) find(name string, h uint64) int32 { return t.slots[t.slot(name, h)] - 1 }

// slot is where a name is, or would be.
func (t *nameTable) slot(name string, h uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	i := (h ^ h>>32) & mask
	for t.slots[i] != 0 && t.names[t.slots[i]-1] != name {
		i = (i + 1) & mask
	}
	return i
}

// add is a name's id, and whether it's a new one.
func (t *nameTable) add(name string) (id int32, fresh bool) {
	h := hashName(name)
	at := t.slot(name, h)
	if id := t.slots[at] - 1; id >= 0 {
		return id, false
	}
	t.names = append(t.names, name)
	if len(t.names)*2 <= len(t.slots) {
		t.slots[at] = int32(len(t.names))
		return t.slots[at] - 1, true
	}
	t.slots = make([]int32, 2*len(t.slots))
	for id, n := range t.names {
		t.slots[t.slot(n, hashName(n))] = int32(id) + 1
	}
	return int32(len(t.names)) - 1, true
}

// tableSize is a power of two, at least twice n and never 0, so that every search ends.
func tableSize(n int) int {
	size := 2
	for size < 2*n+2 {
		size *= 2
	}
	return size
}

// edgeTable holds the edges of the trie: (node, name) to node.
type edgeTable struct {
	keys []uint64 // node<<32 | name+1; 0 is empty
	to   []int32
	n    int
}

func newEdgeTable(n int) edgeTable {
	return edgeTable{keys: make([]uint64, tableSize(n)), to: make([]int32, tableSize(n))}
}

func edgeKey(node, name int32) uint64 { return uint64(node)<<32 | uint64(name+1) }

// slot is where an edge is, or would be.
func (t *edgeTable) slot(key uint64) uint64 {
	h, mask := key*0x9E3779B97F4A7C15, uint64(len(t.keys)-1)
	i := (h ^ h>>29) & mask
	for t.keys[i] != 0 && t.keys[i] != key {
		i = (i + 1) & mask
	}
	return i
}

func (t *edgeTable) find(node, name int32) int32 {
	if i := t.slot(edgeKey(node, name)); t.keys[i] != 0 {
		return t.to[i]
	}
	return -1
}

// add adds an edge that isn't there yet.
func (t *edgeTable) add(node, name, to int32) {
	if t.n++; t.n*2 > len(t.keys) {
		old := *t
		t.keys, t.to = make([]uint64, 2*len(old.keys)), make([]int32, 2*len(old.keys))
		for i, key := range old.keys {
			if key != 0 {
				t.put(key, old.to[i])
			}
		}
	}
	t.put(edgeKey(node, name), to)
}

func (t *edgeTable) put(key uint64, to int32) {
	i := t.slot(key)
	t.keys[i], t.to[i] = key, to
}

// affixes is a trie over the bytes of prefixes, or of suffixes from their end: for a name it finds every one at once.
type affixes struct {
	nodes []affixNode // nodes[0] is the root; empty when there is no affix
}

type affixNode struct {
	b       byte
	child   int32 // 0 for none: the root is no child
	sibling int32
	set     int32 // the bits of the affix that ends here; -1 for none
}

// collect adds to mask the bits of every affix of name.
func (a *affixes) collect(t *Table, name string, mask []uint64, backwards bool) {
	if len(a.nodes) == 0 {
		return
	}
	at := int32(0)
	for i := range len(name) {
		b := name[i]
		if backwards {
			b = name[len(name)-1-i]
		}
		if at = a.child(at, b); at == 0 {
			return
		}
		if s := a.nodes[at].set; s >= 0 {
			for i, w := range t.set(s) {
				mask[i] |= w
			}
		}
	}
}

func (a *affixes) child(at int32, b byte) int32 {
	for n := a.nodes[at].child; n != 0; n = a.nodes[n].sibling {
		if a.nodes[n].b == b {
			return n
		}
	}
	return 0
}

// add makes the node where an affix ends.
func (a *affixes) add(s string, backwards bool) int32 {
	if len(a.nodes) == 0 {
		a.nodes = append(a.nodes, affixNode{set: -1})
	}
	at := int32(0)
	for i := range len(s) {
		b := s[i]
		if backwards {
			b = s[len(s)-1-i]
		}
		next := a.child(at, b)
		if next == 0 {
			next = int32(len(a.nodes))
			a.nodes = append(a.nodes, affixNode{b: b, sibling: a.nodes[at].child, set: -1})
			a.nodes[at].child = next
		}
		at = next
	}
	return at
}
