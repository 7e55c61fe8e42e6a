package image

import (
	"errors"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

var errNames = errors.New("the rules' paths have more aliases by bind mounts than the kernel's matcher follows: unmount some")

const noNode = 0xffffffff

// alias is the state from which a walk along an alias begins (bpf/lib/alias.h).
type alias struct {
	depth  uint32 // of the path that has it
	at     walk
	common bitset
}

// addAliases stores, at every node where the set of aliases changes, the aliases beneath it and the states from which walks to them begin.
func (b *builder) addAliases(aliases []fspath.Alias) error {
	begin, end := map[uint32][]uint32{}, map[uint32][]uint32{} // by node
	for i := range aliases {
		a := &aliases[i]
		n := b.path(a.From)
		b.markAbove(n)
		begin[n] = append(begin[n], uint32(i))
		for _, hole := range a.Holes {
			n := b.path(strings.TrimSuffix(a.From, "/") + hole)
			end[n] = append(end[n], uint32(i))
		}
	}
	for i := range aliases {
		a := &aliases[i]
		b.aliases = append(b.aliases, alias{uint32(len(names(a.From))), b.walk(a), b.common(a)})
	}
	return b.spread(begin, end)
}

// spread makes the lists from the aliases that begin and end at each node. A node's number is higher than its parent's.
func (b *builder) spread(begin, end map[uint32][]uint32) error {
	if len(begin) == 0 {
		return nil
	}
	size := 0
	lists := make([][]uint32, len(b.nodes))
	for n := range b.nodes {
		list := lists[b.nodes[n].parent]
		if here := uint32(n); begin[here] != nil || end[here] != nil {
			list = slices.DeleteFunc(slices.Concat(list, begin[here]), func(i uint32) bool { return slices.Contains(end[here], i) })
			slices.Sort(list)
			b.nodes[n].names = &list
			if size += len(list); size > MaxLines {
				return errNames
			}
		}
		lists[n] = list
	}
	return nil
}

// common returns the bits of the patterns that may start at both paths.
func (b *builder) common(a *fspath.Alias) (s bitset) {
	for _, p := range b.patterns {
		if within(a.From, p.base) {
			for bit := p.first; bit < p.end; bit++ {
				s.set(bit)
			}
		}
	}
	return s
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func names(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// walk is the state of the kernel's walk along a path, with the hits that have decided.
type walk struct {
	node          uint32
	starts, state bitset
	decided       [maxTables]uint32
}

// walk walks to an alias's path. A hit there is known already if its rule is about the whole file system, or about a folder that has
// both paths.
func (b *builder) walk(a *fspath.Alias) walk {
	var w walk
	for i := range w.decided {
		w.decided[i] = noHit
	}
	w.enter(b, 0, hitKnown)
	path := ""
	for depth, name := range names(a.To) {
		path += "/" + name
		known := uint32(0)
		if depth+1 < a.Depth {
			known = hitKnown
		}
		w.patterns(b, name, known)
		if within(a.From, path) {
			known = hitKnown
		}
		w.enter(b, b.nextNode(w.node, name), known)
	}
	return w
}

// nextNode returns the node of a name beneath another node.
func (b *builder) nextNode(node uint32, name string) uint32 {
	id, ok := b.names[name]
	if next, there := b.edges[edge{node, id}]; ok && there {
		return next
	}
	return noNode
}

// decide makes a rule decide, unless it only grants.
func (w *walk) decide(decide, known uint32) {
	if decide&hitGrants == 0 {
		w.decided[decide>>24&(maxTables-1)] = decide | known
	}
}

func (w *walk) enter(b *builder, node, known uint32) {
	w.node = node
	if node == noNode {
		return
	}
	n := &b.nodes[node]
	for _, h := range n.hits {
		w.decide(h, known)
	}
	if n.starts != nil {
		w.starts.add(n.starts)
	}
}

// patterns advances the patterns' bits by a name.
func (w *walk) patterns(b *builder, name string, known uint32) {
	mask, carry := b.mask(name), uint64(0)
	for i := range w.state {
		open := w.state[i] &^ b.finals[i]
		w.state[i] = (open<<1 | carry | w.starts[i]) & mask[i]
		carry = open >> 63
	}
	for bit, h := range b.bitHits {
		if w.state.has(bit) && b.finals.has(bit) {
			w.decide(h, known)
		}
	}
}

// mask returns the bits of the patterns' components that a name matches.
func (b *builder) mask(name string) (mask bitset) {
	if s := b.sets[name]; s != nil {
		mask.add(s)
	}
	for root := range uint32(2) {
		at := root
		for i := range len(name) {
			c := name[i]
			if root == suffixRoot {
				c = name[len(name)-1-i]
			}
			next, ok := b.affixed[edge{at, uint32(c)}]
			if !ok {
				break
			}
			if at = next; b.affixes[at] != nil {
				mask.add(b.affixes[at])
			}
		}
	}
	return mask
}

// aliases lays out the aliases (bpf/lib/image.h) and returns their lines.
func (w *writer) aliases(all []alias) (at []uint32) {
	for i := range all {
		o := &all[i]
		live := uint32(0)
		if o.at.starts != (bitset{}) {
			live = 1
		}
		at = append(at, w.words([]uint32{o.depth, o.at.node, live}))
		w.set(&o.at.starts)
		w.set(&o.at.state)
		w.set(&o.common)
		w.words(o.at.decided[:])
	}
	return at
}

// list lays out a node's list of aliases.
func (w *writer) list(others *[]uint32, at []uint32) uint32 {
	if others == nil {
		return 0
	}
	words := []uint32{uint32(len(*others))}
	for _, i := range *others {
		words = append(words, at[i])
	}
	return w.words(words)
}
