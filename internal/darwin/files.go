package darwin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// operations are the operations that one decision is about.
type operations struct {
	comment string
	ops     string
	allowed func(p *profile, o outcome) bool
}

const (
	updateOps = "file-write-data file-write-mode file-write-flags file-write-times file-write-xattr file-write-acl file-write-owner network-outbound"
	createOps = "file-write-create network-bind network-inbound"
	deleteOps = "file-write-unlink"
	linkOps   = "file-link file-clone"
)

// has returns a decision that needs some capabilities.
func has(c policy.Caps) func(*profile, outcome) bool {
	return func(_ *profile, o outcome) bool { return o.caps&c == c }
}

// fileOperations are the operations on files: of unix sockets, a connection updates, and bind creates.
var fileOperations = []operations{
	{"read", "file-read-data file-read-xattr", has(policy.Read)},
	{"execute", "process-exec-interpreter file-map-executable", has(policy.Execute)},
	{"create", createOps, func(_ *profile, o outcome) bool { return o.caps&policy.Create != 0 && !o.noCreate }},
	{"update", updateOps, has(policy.Update)},
	{"delete, and rename: what can't be read stays where it is", deleteOps, func(p *profile, o outcome) bool {
		return o.caps&policy.Delete != 0 && !p.gainsByRename(o.caps) && !o.noMove
	}},
	{"link: not what would gain by another name", linkOps, func(p *profile, o outcome) bool {
		want := policy.Read | p.gain
		return o.caps&want == want && !o.noMove
	}},
}

// gainsByRename reports whether a file could gain a capability by a rename. One that can be read can't: it can be copied.
func (p *profile) gainsByRename(caps policy.Caps) bool {
	return caps&policy.Read == 0 && p.gain&^caps&(policy.Read|policy.Update|policy.Execute) != 0
}

const executeOps = "process-exec"

// files writes the rules about files and programs.
func (p *profile) files() error {
	if err := p.findRegions(); err != nil {
		return err
	}
	used := map[*region]bool{}
	for _, ops := range fileOperations {
		p.operations(ops, used)
	}
	if p.restrictsCommands() {
		p.programs()
	} else {
		p.operations(operations{"execute, as a command", executeOps, has(policy.Execute)}, used)
	}
	for _, r := range p.regions {
		if used[r] {
			p.emitted = append(p.emitted, r)
		}
	}
	p.aboveRules()
	p.liftedFolders()
	return nil
}

// decision is how a region decides on some operations.
type decision struct {
	region *region
	base   bool
	rules  []combination

	key     string // the same for regions that decide alike
	pointed bool   // the point decides otherwise than what is around it
}

// combination is a combination of matches that decides otherwise than those before it.
type combination struct {
	at    []int
	allow bool
}

// operations writes the rules for some operations, from the top down, and adds the regions with a rule to used.
func (p *profile) operations(ops operations, used map[*region]bool) {
	decides := map[*region]*decision{} // of each region: the decision of the nearest one with a rule
	p.comment(ops.comment)
	for _, level := range p.levels() {
		var needed []*decision
		for _, r := range level {
			d := p.decide(r, ops)
			if decides[r] = d; r.up != nil && p.sameAs(d, decides[r.up]) {
				decides[r] = decides[r.up]
				continue
			}
			if up := decides[r.up]; r.up == nil {
				d.pointed = d.base
			} else {
				d.pointed = d.base != up.base || len(up.rules) > 0
			}
			needed, used[r] = append(needed, d), true
		}
		slices.SortStableFunc(needed, compareDecisions)
		for len(needed) > 0 {
			n := 1
			for n < len(needed) && compareDecisions(needed[n], needed[0]) == 0 {
				n++
			}
			p.group(ops.ops, needed[:n])
			needed = needed[n:]
		}
	}
}

func compareDecisions(a, b *decision) int {
	if a.pointed != b.pointed {
		return map[bool]int{true: -1, false: 1}[a.pointed]
	}
	return strings.Compare(a.key, b.key)
}

// levels returns the regions of each depth.
func (p *profile) levels() (levels [][]*region) {
	for i, r := range p.regions {
		if i == 0 || r.depth != p.regions[i-1].depth {
			levels = append(levels, nil)
		}
		levels[len(levels)-1] = append(levels[len(levels)-1], r)
	}
	return levels
}

// decide finds the combinations that need a rule.
func (p *profile) decide(r *region, ops operations) *decision {
	d := &decision{region: r, base: ops.allowed(p, r.outcomes[0])}
	at := make([]int, len(r.variables))
	constant := true
	for _, o := range r.outcomes {
		allow := ops.allowed(p, o)
		constant = constant && allow == d.base
		if !d.settles(at, allow) {
			d.rules = append(d.rules, combination{slices.Clone(at), allow})
		}
		next(at, r.variables)
	}
	if constant {
		d.rules = nil
	}
	var key strings.Builder
	fmt.Fprintln(&key, d.base, r.only)
	for _, c := range d.rules {
		fmt.Fprintln(&key, c.allow)
		for v, match := range c.at {
			if match > 0 {
				key.WriteString(r.variables[v].matches[match-1].key)
			}
		}
	}
	d.key = key.String()
	return d
}

// settles reports whether the rules so far decide a combination in a certain way, whichever of them match. Those for the same matches, or for
// fewer variables, certainly do; one for an earlier match of a variable may.
func (d *decision) settles(at []int, allow bool) bool {
	for _, c := range slices.Backward(d.rules) {
		possible, certain := true, true
		for v, match := range c.at {
			possible = possible && match <= at[v]
			certain = certain && (match == 0 || match == at[v])
		}
		switch {
		case possible && c.allow != allow:
			return false
		case possible && certain:
			return true
		}
	}
	return d.base == allow
}

// sameAs reports whether a region decides as the region around it does, so that it needs no rule.
func (p *profile) sameAs(d, up *decision) bool {
	switch {
	case d.base != up.base || d.region.only && len(up.rules) > 0:
		return false
	case len(d.rules) == 0 && len(up.rules) == 0:
		return true
	}
	return d.key == up.key && !p.patternBetween(up.region, d.region)
}

// patternBetween reports whether a pattern matches at a region's point, or above it and beneath the region around.
func (p *profile) patternBetween(up, r *region) bool {
	for _, l := range p.layers() {
		for _, t := range tablesOf(l) {
			if t == nil {
				continue
			}
			for _, q := range t.Patterns() {
				if matchesBetween(p.scope(q), up.path, r.path) {
					return true
				}
			}
		}
	}
	return false
}

// group writes the rules of regions of one depth that decide alike.
func (p *profile) group(ops string, group []*decision) {
	var at []string
	for _, d := range group {
		at = append(at, p.point(d)...)
	}
	if group[0].pointed {
		p.rule(group[0].base, ops, at...)
	}
	for i, c := range group[0].rules {
		var filters []string
		for _, d := range group {
			c := d.rules[i]
			for _, s := range spelled(d.region.path) {
				filters = append(filters, p.combination(d.region, s, c))
			}
		}
		p.rule(c.allow, ops, filters...)
	}
}

// point returns the filters of a point and everything beneath.
func (p *profile) point(d *decision) (filters []string) {
	r := d.region
	switch {
	case r.path == "/":
		return []string{`(subpath "/")`}
	case r.only:
		return []string{p.literal(r.path)}
	}
	for _, s := range spelled(r.path) {
		filters = append(filters, p.literal(s), p.subpath(s))
		if !d.base {
			filters = append(filters, p.regex(pathRegex(s)))
		}
	}
	return filters
}

// combination returns the filter of a combination of matches beneath a point.
func (p *profile) combination(r *region, spelling string, c combination) string {
	var filters []string
	switch {
	case r.path == "/":
	case c.allow:
		filters = append(filters, p.subpath(spelling))
	default: // in another case, if nothing is there yet
		filters = append(filters, anyOf(p.subpath(spelling), p.regex(pathRegex(spelling))))
	}
	for v, match := range c.at {
		if match == 0 {
			continue
		}
		var list []string
		for _, re := range r.variables[v].matches[match-1].regexes(spelling, !c.allow) {
			list = append(list, p.regex(re))
		}
		filters = append(filters, anyOf(list...))
	}
	return all(filters...)
}
