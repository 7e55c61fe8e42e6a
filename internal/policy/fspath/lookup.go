package fspath

// Literals are the indexes of the literal entries, in order.
func (t *Table) Literals() []int32 { return t.literals }

// Patterns are the indexes of the patterns, in order.
func (t *Table) Patterns() []int32 { return t.patterns }

// at is the trie's node for a path, -1 when there is none.
func (t *Table) at(path string) int32 {
	node := int32(0)
	for _, c := range components(path) {
		id := t.names.find(c, hashName(c))
		if id < 0 {
			return -1
		}
		if node = t.edges.find(node, id); node < 0 {
			return -1
		}
	}
	return node
}

// LiteralBeneath is the first literal entry strictly beneath path: NoMatch for none.
func (t *Table) LiteralBeneath(path string) int32 {
	node := t.at(path)
	if node < 0 {
		return NoMatch
	}
	return t.nodes[node].below
}

// BaseBeneath is a pattern whose BASE lies strictly beneath path: NoMatch for none. Its BASE would move away from it.
func (t *Table) BaseBeneath(path string) int32 {
	if node := t.at(path); node < 0 || t.nodes[node].base < 0 {
		return NoMatch
	}
	for _, i := range t.patterns {
		if e := t.entries[i]; e.Path != path && Within(e.Path, path) {
			return i
		}
	}
	return NoMatch
}

// PartOf is a pattern that path is a part of, as ".git" is of "**/.git/hooks": NoMatch for none.
func (t *Table) PartOf(path string) int32 {
	if len(t.patterns) == 0 {
		return NoMatch
	}
	var c cursor
	t.enter(&c, 0)
	for _, name := range components(path) {
		t.step(&c, name, hashName(name))
	}
	bit := 0
	for _, at := range t.patterns {
		n := 1 + len(t.entries[at].Names)
		for i := bit; i < bit+n-1; i++ {
			if c.state[i/64]>>(i%64)&1 != 0 {
				return at
			}
		}
		bit += n
	}
	return NoMatch
}

// Match is an entry that matches a path, and the number of components at which it does.
type Match struct {
	Entry int32
	Depth int
}

// Trace is every match of a canonical path, found by the same steps as Find: by depth, and of one depth literals before patterns. A
// pattern may match at more than one depth.
func (t *Table) Trace(path string) (matches []Match) {
	var c cursor
	at, depth := "", 0
	visit := func() {
		if c.node >= 0 && t.nodes[c.node].entry >= 0 {
			for _, i := range t.literals {
				if t.entries[i].Path == rooted(at) {
					matches = append(matches, Match{i, depth})
				}
			}
		}
		for bit := range len(t.bitEntry) {
			if w := bit / 64; (c.state[w]&t.finals[w])>>(bit%64)&1 != 0 {
				matches = append(matches, Match{t.bitEntry[bit], depth})
			}
		}
	}
	t.enter(&c, 0)
	visit()
	for _, name := range components(path) {
		at, depth = at+"/"+name, depth+1
		t.step(&c, name, hashName(name))
		visit()
	}
	return matches
}
