package mounts

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// MaxEntries is how many entries are searched for those that patterns match: in the workspace, in everything else that may be written, and in
// what may only be read. The caches and programs of a machine don't use up the workspace's share.
const MaxEntries = 20_000

// The tables of a layer.
const (
	fsTable = iota
	protectTable
	secretsTable
)

// remover is what the patterns of one table with one BASE take away.
type remover struct {
	finding
	layer *policy.Layer
	caps  policy.Caps
}

// finding identifies a search: all patterns of one table with one BASE have the same.
type finding struct {
	layer, table int
	base         string
}

// search is the result of searching for the entries that patterns match.
type search struct {
	limited  bool                 // there are more entries than may be searched
	full     bool                 // there are more matches than mounts
	unlisted int                  // folders that can't be listed
	matches  map[*policy.Rule]int // the entries that were covered because of a rule
}

func removersOf(c *policy.Compiled) (all []remover) {
	at := map[finding]int{}
	for n, l := range c.Layers {
		for k, t := range tablesOf(l) {
			for _, r := range t.Patterns() {
				key := finding{n, k, r.FS.Path}
				i, ok := at[key]
				if !ok {
					i = len(all)
					at[key], all = i, append(all, remover{key, l, 0})
				}
				all[i].caps |= removes(k, r)
			}
		}
	}
	return all
}

// removes returns the capabilities that a rule of a table takes away.
func removes(table int, r *policy.Rule) policy.Caps {
	switch table {
	case protectTable:
		return policy.RestrictProtect.Removes(r)
	case secretsTable:
		return policy.RestrictSecrets.Removes(r)
	}
	return policy.AllCaps &^ r.FS.Caps
}

// relevant returns the removers that may take away something of caps in dir or beneath it, where the literal rules at root decide.
func (b *builder) relevant(root, dir string, caps policy.Caps) (out []*remover) {
	for i := range b.removers {
		r := &b.removers[i]
		if caps&r.caps == 0 || !overlap(dir, r.base) || r.exempt(root, dir) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// exempt reports whether the rules that decide in dir and beneath it, where the literal ones are root's, lift the remover's kind.
func (r *remover) exempt(root, dir string) bool {
	d := r.layer.FS.Deciding(root)
	if d == nil || r.table == fsTable || !d.FS.Exempts()[r.table-1] {
		return false
	}
	return !slices.ContainsFunc(r.layer.FS.Patterns(), func(q *policy.Rule) bool {
		return !q.FS.Exempts()[r.table-1] && overlap(q.FS.Path, dir)
	})
}

// overlap reports whether one of two paths is in the other.
func overlap(p, q string) bool { return fspath.Within(p, q) || fspath.Within(q, p) }

type folder struct {
	path string
	mode Mode
}

// search covers the entries beneath a rule's path that patterns match, up to the next rules. It goes through the folders by depth: those
// near the rule's path are covered even if the limit is reached.
func (b *builder) search(root string) {
	permitted := b.permitted(root)
	started := b.relevant(root, root, b.modeAt(root).caps()&permitted)
	for _, r := range started {
		b.searchOf(r)
	}
	if started == nil {
		return
	}
	left := b.share(root, permitted)
	for queue := []folder{{root, b.modeAt(root)}}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		active := b.relevant(root, dir.path, dir.mode.caps()&permitted)
		if active == nil {
			continue
		}
		if *left <= 0 {
			b.mark(active, func(s *search) { s.limited = true })
			continue
		}
		entries, err := b.files.List(dir.path, *left)
		if *left -= len(entries); *left <= 0 { // there may be more
			b.mark(active, func(s *search) { s.limited = true })
		}
		if err != nil {
			b.mark(active, func(s *search) { s.unlisted++ })
		}
		for _, e := range entries {
			if p := fspath.Join(dir.path, "/"+e.Name); !b.points[p] && !isKernel(p) && p != tmp {
				if m := b.entry(p, e.Kind, dir.mode, permitted, active); e.Kind == fspath.Dir {
					queue = append(queue, folder{p, m})
				}
			}
		}
	}
}

// share returns how many entries may still be searched in a place like root.
func (b *builder) share(root string, permitted policy.Caps) *int {
	switch {
	case fspath.Within(root, b.c.Workspace):
		return &b.left[0]
	case b.modeAt(root).caps()&permitted&policy.Write != 0:
		return &b.left[1]
	}
	return &b.left[2]
}

func (b *builder) mark(active []*remover, as func(*search)) {
	for _, r := range active {
		as(b.searchOf(r))
	}
}

// searchOf returns the result of a remover's search, which begins with the first call.
func (b *builder) searchOf(r *remover) *search {
	s := b.found[r.finding]
	if s == nil {
		s = &search{matches: map[*policy.Rule]int{}}
		b.found[r.finding] = s
	}
	return s
}

// entry decides on an entry that the search has found, and returns its mode.
func (b *builder) entry(p string, kind fspath.Kind, in Mode, permitted policy.Caps, active []*remover) Mode {
	if len(b.mounts) >= maxMatches && b.c.Caps(p)&permitted != in.caps()&permitted {
		b.mark(active, func(s *search) { s.full = true })
		return in
	}
	m := b.place(p, kind, in, permitted)
	if b.mounts[p] == nil {
		return m
	}
	for _, r := range active {
		if d := tablesOf(r.layer)[r.table].Deciding(p); d != nil && d.FS.Last != "" && removes(r.table, d) != 0 {
			b.searchOf(r).matches[d]++
		}
	}
	return m
}

// tablesOf returns the rules of a layer about files, in the order of the constants.
func tablesOf(l *policy.Layer) [3]*policy.FSTable {
	return [...]*policy.FSTable{fsTable: l.FS, protectTable: l.Protect, secretsTable: l.Secrets}
}
