package image

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// trieNode is a node of the trie of paths that rules name.
type trieNode struct {
	parent   uint32
	hits     []uint32
	starts   *bitset
	beneath  bool
	commands []command
	names    *[]uint32 // the aliases from this node on; nil: the parent's
}

// hasContent returns 1 if the node has hits, patterns or aliases.
func (n *trieNode) hasContent() uint32 {
	if len(n.hits) > 0 || n.starts != nil || n.names != nil {
		return 1
	}
	return 0
}

type edge struct{ from, label uint32 }

func (b *builder) rule(fs *policy.CompiledFS, hit uint32) error {
	n := b.path(fs.Path)
	b.markAbove(n)
	if fs.Last == "" {
		b.nodes[n].hits = replaceHit(b.nodes[n].hits, hit)
		return nil
	}
	if b.bit+1+len(fs.Names) > maxWords*64 {
		return errPatterns
	}
	if b.nodes[n].starts == nil {
		b.nodes[n].starts = &bitset{}
	}
	b.patterns = append(b.patterns, pattern{fs.Path, b.bit, b.bit + 1 + len(fs.Names)})
	b.nodes[n].starts.set(b.bit)
	b.lastSet(fs.Last).set(b.bit)
	for _, name := range fs.Names {
		b.bitHits = append(b.bitHits, 0)
		b.bit++
		b.nameSet(name).set(b.bit)
	}
	b.bitHits = append(b.bitHits, hit)
	b.finals.set(b.bit)
	b.bit++
	return nil
}

// markAbove sets nodeBeneath on every ancestor of a node, which therefore can't be moved.
func (b *builder) markAbove(n uint32) {
	for n != 0 {
		n = b.nodes[n].parent
		b.nodes[n].beneath = true
	}
}

// replaceHit adds a hit of a later rule. Of one table only the last hit counts; for aliases, the last one that doesn't only grant.
func replaceHit(hits []uint32, hit uint32) []uint32 {
	hits = slices.DeleteFunc(hits, func(h uint32) bool {
		return h>>24&(maxTables-1) == hit>>24&(maxTables-1) && (h&hitGrants != 0 || hit&hitGrants == 0)
	})
	return append(hits, hit)
}

// path returns the node of a clean absolute path.
func (b *builder) path(p string) uint32 {
	at := uint32(0)
	if p == "/" {
		return at
	}
	for name := range strings.SplitSeq(p[1:], "/") {
		e := edge{at, b.name(name)}
		next, ok := b.edges[e]
		if !ok {
			next = uint32(len(b.nodes))
			b.nodes = append(b.nodes, trieNode{parent: at})
			b.edges[e] = next
		}
		at = next
	}
	return at
}

func (b *builder) name(s string) uint32 {
	id, ok := b.names[s]
	if !ok {
		id = uint32(len(b.texts))
		b.names[s] = id
		b.texts = append(b.texts, s)
	}
	return id
}

func (b *builder) layNodes(w *writer, head *[16]uint32) {
	names := w.aliases(b.aliases)
	var nodes, hits []uint32
	for _, n := range b.nodes {
		flags := uint32(0)
		if n.beneath {
			flags |= nodeBeneath
		}
		flags |= w.commands(n.commands) << 8
		nodes = append(nodes, uint32(len(hits)), uint32(len(n.hits))|w.list(n.names, names)<<8, w.set(n.starts), flags)
		hits = append(hits, n.hits...)
	}
	head[hNodes], head[hHits] = w.words(nodes), w.words(hits)
}
