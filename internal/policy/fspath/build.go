package fspath

import (
	"fmt"
	"strings"
)

// builder makes an Table.
type builder struct {
	t       *Table
	parents []int32
	nextBit int
}

// NewTable indexes entries, which must be canonical. A nil entry matches nothing.
func NewTable(entries []*Entry) (*Table, error) {
	parts, patterns := 0, 0
	for _, e := range entries {
		if e != nil && e.Last != "" {
			patterns++
			parts += 1 + len(e.Names)
		}
	}
	if parts > MaxPatternParts {
		return nil, fmt.Errorf("the patterns of this authority have %d components after their \"**\" together; the matcher follows at most %d",
			parts, MaxPatternParts)
	}
	b := builder{t: &Table{
		entries: entries, literals: make([]int32, 0, len(entries)-patterns), patterns: make([]int32, 0, patterns),
		names: newNameTable(len(entries)), edges: newEdgeTable(len(entries) - patterns),
		words: (parts + 63) / 64, bitEntry: make([]int32, parts),
	}}
	b.t.finals = make([]uint64, b.t.words)
	b.newNode(-1)
	for i, e := range entries {
		if e != nil {
			b.add(int32(i), e)
		}
	}
	return b.t, nil
}

func (b *builder) newNode(parent int32) int32 {
	b.t.nodes = append(b.t.nodes, node{entry: NoMatch, below: NoMatch, base: NoMatch, starts: -1})
	b.parents = append(b.parents, parent)
	return int32(len(b.t.nodes) - 1)
}

func (b *builder) name(s string) int32 {
	id, fresh := b.t.names.add(s)
	if fresh {
		b.t.nameSet = append(b.t.nameSet, -1)
	}
	return id
}

// node is the trie's node for a path, made when it isn't there.
func (b *builder) node(path string) int32 {
	at := int32(0)
	if path == "/" {
		return at
	}
	for c := range strings.SplitSeq(path[1:], "/") {
		name := b.name(c)
		next := b.t.edges.find(at, name)
		if next < 0 {
			next = b.newNode(at)
			b.t.edges.add(at, name, next)
		}
		at = next
	}
	return at
}

func (b *builder) add(index int32, e *Entry) {
	n := b.node(e.Path)
	if e.Last == "" {
		b.t.literals = append(b.t.literals, index)
		b.t.nodes[n].entry = index
		for up := b.parents[n]; up >= 0 && b.t.nodes[up].below < 0; up = b.parents[up] {
			b.t.nodes[up].below = index
		}
		return
	}
	b.t.patterns = append(b.t.patterns, index)
	for up := n; up >= 0 && b.t.nodes[up].base < 0; up = b.parents[up] {
		b.t.nodes[up].base = index
	}
	b.setBit(&b.t.nodes[n].starts, b.nextBit)
	b.addLast(e.Last)
	for _, name := range e.Names {
		b.nextBit++
		id := b.name(name)
		b.setBit(&b.t.nameSet[id], b.nextBit)
	}
	b.t.finals[b.nextBit/64] |= 1 << (b.nextBit % 64)
	b.t.bitEntry[b.nextBit] = index
	b.nextBit++
}

func (b *builder) addLast(last string) {
	if p, ok := strings.CutSuffix(last, "*"); ok {
		at := b.t.prefixes.add(p, false)
		b.setBit(&b.t.prefixes.nodes[at].set, b.nextBit)
		return
	}
	if s, ok := strings.CutPrefix(last, "*"); ok {
		at := b.t.suffixes.add(s, true)
		b.setBit(&b.t.suffixes.nodes[at].set, b.nextBit)
		return
	}
	id := b.name(last)
	b.setBit(&b.t.nameSet[id], b.nextBit)
}

// setBit sets a bit in the set that *at names, which is made when there is none.
func (b *builder) setBit(at *int32, bit int) {
	if *at < 0 {
		*at = int32(len(b.t.sets))
		b.t.sets = append(b.t.sets, make([]uint64, b.t.words)...)
	}
	b.t.sets[int(*at)+bit/64] |= 1 << (bit % 64)
}
