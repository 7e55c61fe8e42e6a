package image

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

type builder struct {
	seed       uint32
	names      map[string]uint32 // to their position in texts
	texts      []string
	sets       map[string]*bitset // of names
	nodes      []trieNode
	edges      map[edge]uint32
	bitHits    []uint32
	patterns   []pattern
	finals     bitset
	bit        int
	affixes    []*bitset // by affix node: the patterns whose affix ends there
	affixed    map[edge]uint32
	filter     [1 + filters*filterLines]bitset // bpf/lib/image.h: of the names in patterns
	layers     [][4]uint32
	tables     uint32
	denyTables map[string]uint32 // the tables of protect and secrets, which many layers share, by content
	aliases    []alias
	linked     map[uint64][][4]uint32 // by inode number
	execs      bool                   // executed programs are reported
}

func newBuilder(seed uint32) *builder {
	return &builder{
		seed: seed, names: map[string]uint32{}, sets: map[string]*bitset{}, nodes: make([]trieNode, 1),
		edges: map[edge]uint32{}, affixes: make([]*bitset, 2), affixed: map[edge]uint32{},
		linked: map[uint64][][4]uint32{}, denyTables: map[string]uint32{},
	}
}

func (b *builder) add(c *policy.Compiled) error {
	b.execs = c.Audit.Exec
	for i, l := range c.Layers {
		fs, err := b.table(l.FS, true)
		if err != nil {
			return err
		}
		protect, err := b.tableOnce(l.Protect)
		if err != nil {
			return err
		}
		secrets, err := b.tableOnce(l.Secrets)
		if err != nil {
			return err
		}
		if l.Authority == policy.Builtin {
			b.addHidden(l.FS, fs-1)
		}
		b.layers = append(b.layers, [4]uint32{fs, protect | secrets<<8, uint32(l.Defaults[policy.FS]), uint32(l.Defaults[policy.Commands])})
		if err := b.commands(uint32(i), l.Commands); err != nil {
			return err
		}
	}
	if err := b.links(c); err != nil {
		return err
	}
	return b.addAliases(c.Aliases)
}

// links adds the rules about files with several hard links.
func (b *builder) links(c *policy.Compiled) error {
	for _, k := range c.Links {
		hit := uint32(k.Rule) | uint32(c.Rules[k.Rule].FS.Caps)<<18
		n := k.File.Inode
		if b.linked[n] = append(b.linked[n], [4]uint32{k.Dev, uint32(k.Layer), hit}); len(b.linked[n]) > maxLinked {
			return fmt.Errorf("%s: %w", c.Rules[k.Rule].ID, errLinked)
		}
	}
	return nil
}

// addHidden denies everything in the hidden folders, in toolguard's own table: no session may block other processes by a lock on their files,
// and SelfTest relies on the canary there.
func (b *builder) addHidden(t *policy.FSTable, table uint32) {
	for _, p := range HiddenFolders {
		if r := t.Deciding(p); r != nil {
			n := b.path(p)
			b.nodes[n].hits = replaceHit(b.nodes[n].hits, uint32(r.Index)|table<<24)
		}
	}
}

// tableOnce is table for protect or secrets: equal tables are added once for all layers. A denial names the first of these layers.
func (b *builder) tableOnce(t *policy.FSTable) (uint32, error) {
	var key strings.Builder
	for _, r := range t.Rules() {
		for _, s := range append([]string{r.FS.Path, r.FS.Last, string(rune(r.FS.Caps))}, r.FS.Names...) {
			key.WriteString(s)
			key.WriteByte(0) // which no name contains
		}
		key.WriteByte(0)
	}
	if n, ok := b.denyTables[key.String()]; ok {
		return n, nil
	}
	n, err := b.table(t, false)
	b.denyTables[key.String()] = n
	return n, err
}

// table adds the rules of a table and returns its number plus one, or 0 if it has none. adds is false for protect and secrets, whose rules
// deny.
func (b *builder) table(t *policy.FSTable, adds bool) (uint32, error) {
	if t == nil {
		return 0, nil
	}
	if b.tables == maxTables {
		return 0, fmt.Errorf("the policy has more than %d tables of rules: nest fewer", maxTables)
	}
	for _, r := range t.Rules() {
		hit := uint32(r.Index) | uint32(r.FS.Caps)<<18 | b.tables<<24
		if r.FS.Unprotect {
			hit |= 1 << 23
		}
		if r.FS.Secret {
			hit |= hitSecret
		}
		if adds && r.Grants() {
			hit |= hitGrants
		}
		if err := b.rule(r.FS, hit); err != nil {
			return 0, fmt.Errorf("%s: %w", r.ID, err)
		}
	}
	b.tables++
	return b.tables, nil
}
