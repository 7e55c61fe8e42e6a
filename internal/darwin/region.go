package darwin

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// region is a point with everything beneath it down to the next points.
type region struct {
	path      string
	depth     int
	only      bool // the point alone: a symlink, beneath which is nothing
	up        *region
	most      policy.Caps // of all outcomes, without patterns of other folders
	variables []variable
	outcomes  []outcome // by combination
}

// variable is a list of matches, of which the last that there is counts.
type variable struct {
	key     string
	matches []links
	effects []effect
}

// effect changes what a layer allows where a match of a variable is the last one.
type effect struct {
	layer  int
	change func(s *layerState, match int)
}

// layerState is which rules of a layer decide.
type layerState struct {
	point      *policy.Rule   // the fs rule that decides on the point
	patterns   []*policy.Rule // fs rules that match beneath it
	mask       policy.Caps    // what patterns of other folders leave
	restricted [policy.NumRestrictions]bool
	part       [policy.NumRestrictions]bool // of a pattern
	partOfFS   bool
}

// outcome is what all layers together allow.
type outcome struct {
	caps             policy.Caps
	noCreate, noMove bool
	lifted           [policy.NumRestrictions]bool // by some layer
}

// mostCombinations limits the combinations of patterns at one point.
const mostCombinations = 1 << 14

// findRegions finds the points, with what may decide beneath each.
func (p *profile) findRegions() error {
	at := map[string]*region{}
	add := func(p string, only bool) {
		if r := at[p]; r == nil {
			at[p] = &region{path: p, depth: fspath.Depth(p), only: only || isLink(p)}
		} else {
			r.only = r.only && (only || isLink(p))
		}
	}
	add("/", false)
	for _, l := range p.layers() {
		for _, t := range tablesOf(l) {
			for _, r := range t.Rules() {
				add(r.FS.Path, r.FS.Symlink)
			}
		}
	}
	p.regions = slices.AppendSeq(p.regions, maps.Values(at))
	slices.SortFunc(p.regions, func(a, b *region) int { return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.path, b.path)) })
	for _, r := range p.regions {
		for up := r.path; r.up == nil && up != "/"; {
			up = path.Dir(up)
			if a := at[up]; a != nil && !a.only {
				r.up = a
			}
		}
	}
	for _, follow := range []bool{false, true} { // whether a pattern follows depends on what new files can have without that
		for _, r := range p.regions {
			if err := p.resolve(r, follow); err != nil {
				return err
			}
		}
		if !follow {
			p.gain = p.createdCaps()
			p.findFollowing()
		}
	}
	return nil
}

// createdCaps returns the capabilities that new files can have somewhere, and sets those of each region.
func (p *profile) createdCaps() (caps policy.Caps) {
	for _, r := range p.regions {
		for _, o := range r.outcomes {
			if r.most |= o.caps; o.caps&policy.Create != 0 {
				caps |= o.caps
			}
		}
	}
	return caps
}

// resolve finds the outcomes of a region.
func (p *profile) resolve(r *region, follow bool) error {
	r.variables, r.outcomes = nil, nil
	if !r.only {
		p.addVariables(r, follow)
	}
	n := 1
	for _, v := range r.variables {
		if n *= len(v.matches) + 1; n > mostCombinations {
			return fmt.Errorf("too many different patterns apply beneath %s: use fewer, or give those of one folder the same capabilities", r.path)
		}
	}
	r.outcomes = make([]outcome, n)
	at := make([]int, len(r.variables)) // the first combination is without any match
	for i := range r.outcomes {
		r.outcomes[i] = p.outcome(r, at)
		next(at, r.variables)
	}
	return nil
}

// layers returns the layers of authorities: toolguard's own is rendered by itself.
func (p *profile) layers() []*policy.Layer { return p.c.Layers[1:] }

func tablesOf(l *policy.Layer) []*policy.FSTable {
	return []*policy.FSTable{l.FS, l.Protect, l.Secrets}
}

// next counts up to the next combination.
func next(at []int, variables []variable) {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] <= len(variables[i].matches) {
			return
		}
		at[i] = 0
	}
}

func (p *profile) outcome(r *region, at []int) outcome {
	layers := p.layers()
	states := make([]layerState, len(layers))
	for i, l := range layers {
		states[i] = layerState{point: l.FS.Deciding(r.path), mask: policy.AllCaps}
		for k, t := range l.Restrictions() {
			states[i].restricted[k] = policy.Restriction(k).Removes(t.Deciding(r.path)) != 0
		}
	}
	for v, match := range at {
		if match > 0 {
			for _, e := range r.variables[v].effects {
				e.change(&states[e.layer], match)
			}
		}
	}
	o := outcome{caps: policy.AllCaps}
	for i, l := range layers {
		p.apply(&o, l, &states[i])
	}
	return o
}

// apply limits an outcome to what a layer allows.
func (p *profile) apply(o *outcome, l *policy.Layer, s *layerState) {
	caps, lifted := policy.AllCaps, [policy.NumRestrictions]bool{}
	switch {
	case l.Defaults[policy.FS] == policy.Undeclared:
	case len(s.patterns) > 0:
		lifted = [policy.NumRestrictions]bool{true, true}
		for _, r := range s.patterns {
			caps &= r.FS.Caps
			for k, e := range p.exempts(r) {
				lifted[k] = lifted[k] && e
			}
		}
	case s.point != nil:
		caps, lifted = s.point.FS.Caps, p.exempts(s.point)
	case l.Defaults[policy.FS] != policy.Allow:
		caps = 0
	}
	caps &= s.mask
	for k := range lifted {
		if s.restricted[k] && !lifted[k] {
			caps &^= policy.RestrictedCaps[k]
		}
		o.lifted[k] = o.lifted[k] || lifted[k]
		o.noMove = o.noMove || s.part[k] && !lifted[k]
	}
	o.noMove = o.noMove || s.partOfFS
	o.noCreate = o.noCreate || s.partOfFS || s.part[policy.RestrictProtect] && !lifted[policy.RestrictProtect]
	o.caps &= caps
}

// exempts returns the kinds of restrictions that don't apply to what a rule grants. Of built-in rules, secrets apply wherever files can be
// created, and protect in the private TMPDIR: a folder could be moved there from the workspace, or the other way.
func (p *profile) exempts(r *policy.Rule) [policy.NumRestrictions]bool {
	e := r.FS.Exempts()
	if r.Builtin() && r.FS.Caps&policy.Create != 0 {
		e[policy.RestrictSecrets] = false
		e[policy.RestrictProtect] = e[policy.RestrictProtect] && r.FS.Path != p.c.TmpDir
	}
	return e
}
