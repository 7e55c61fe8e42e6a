package policy

import (
	"fmt"
	"strings"
)

// components cuts a clean absolute path; the root has none.
func components(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// fsBuilder makes an FSTable.
type fsBuilder struct {
	t       *FSTable
	parents []int32
	nextBit int
}

// newFSTable indexes rules, which must be compiled and consecutive in Compiled.Rules.
func newFSTable(rules []*Rule) (*FSTable, error) {
	return newFSTableOf(rules, func(*Rule) bool { return true })
}

// newFSTableOf indexes those of the rules that count.
func newFSTableOf(rules []*Rule, counts func(*Rule) bool) (*FSTable, error) {
	parts, patterns := 0, 0
	for _, r := range rules {
		if r.FS.Last != "" {
			patterns++
			parts += 1 + len(r.FS.Names)
		}
	}
	if parts > maxPatternParts {
		return nil, fmt.Errorf("the patterns of this authority have %d components after their \"**\" together; the matcher follows at most %d",
			parts, maxPatternParts)
	}
	b := fsBuilder{t: &FSTable{
		rules: rules, literals: make([]*Rule, 0, len(rules)-patterns), patterns: make([]*Rule, 0, patterns),
		names: newNameTable(len(rules)), edges: newEdgeTable(len(rules) - patterns),
		words: (parts + 63) / 64, bitRule: make([]int32, parts),
	}}
	b.t.finals = make([]uint64, b.t.words)
	b.newNode(-1)
	if len(rules) > 0 {
		b.t.first = rules[0].Index
	}
	for _, r := range rules {
		if counts(r) {
			b.add(r)
		}
	}
	return b.t, nil
}

func (b *fsBuilder) newNode(parent int32) int32 {
	b.t.nodes = append(b.t.nodes, fsNode{rule: NoMatch, below: NoMatch, base: NoMatch, starts: -1})
	b.parents = append(b.parents, parent)
	return int32(len(b.t.nodes) - 1)
}

func (b *fsBuilder) name(s string) int32 {
	id, fresh := b.t.names.add(s)
	if fresh {
		b.t.nameSet = append(b.t.nameSet, -1)
	}
	return id
}

// node is the trie's node for a path, made when it isn't there.
func (b *fsBuilder) node(path string) int32 {
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

func (b *fsBuilder) add(r *Rule) {
	n := b.node(r.FS.Path)
	if r.FS.Last == "" {
		b.t.literals = append(b.t.literals, r)
		b.t.nodes[n].rule = r.Index
		for up := b.parents[n]; up >= 0 && b.t.nodes[up].below < 0; up = b.parents[up] {
			b.t.nodes[up].below = r.Index
		}
		return
	}
	b.t.patterns = append(b.t.patterns, r)
	for up := n; up >= 0 && b.t.nodes[up].base < 0; up = b.parents[up] {
		b.t.nodes[up].base = r.Index
	}
	b.setBit(&b.t.nodes[n].starts, b.nextBit)
	b.addLast(r.FS.Last)
	for _, name := range r.FS.Names {
		b.nextBit++
		id := b.name(name)
		b.setBit(&b.t.nameSet[id], b.nextBit)
	}
	b.t.finals[b.nextBit/64] |= 1 << (b.nextBit % 64)
	b.t.bitRule[b.nextBit] = r.Index
	b.nextBit++
}

func (b *fsBuilder) addLast(last string) {
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
func (b *fsBuilder) setBit(at *int32, bit int) {
	if *at < 0 {
		*at = int32(len(b.t.sets))
		b.t.sets = append(b.t.sets, make([]uint64, b.t.words)...)
	}
	b.t.sets[int(*at)+bit/64] |= 1 << (bit % 64)
}
