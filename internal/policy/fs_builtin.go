package policy

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Grants says whether a rule with a path only ever adds: those of built-in files about places outside the workspace, which are there so
// that programs find what they need. What a preset says of the workspace is a word on it like anybody's.
func (r *Rule) Grants() bool {
	outside := strings.HasPrefix(r.FS.Written, "/") || strings.HasPrefix(r.FS.Written, "~")
	return outside && r.Authority != Builtin && isBuiltinFile(r.Place.File)
}

// addUp lets every rule of a layer that only adds give also what would be given at its path without it. One that adds
// nothing to that is left out. Nothing is taken away by this: what the rule decides, beneath its path too, was decided
// without it by the one rule that it's compared with.
func addUp(rules []*Rule, stance Stance) []*Rule {
	a, ok := newAdding(rules, stance)
	if !ok {
		return rules
	}
	idle := make([]bool, len(rules))
	for depth := range a.deepest + 1 { // from above, so that the rules around one are complete
		for i, r := range rules {
			if a.depths[i] == depth {
				idle[i] = r.Grants() && a.complete(r.FS)
				a.last[r.FS.Path] = r
			}
		}
	}
	out := make([]*Rule, 0, len(rules))
	for i, r := range rules {
		if !idle[i] {
			out = append(out, r)
		}
	}
	return out
}

// adding is what addUp knows of a layer.
type adding struct {
	stance   Stance
	depths   []int // of the rules; -1 for patterns
	deepest  int
	patterns *FSTable
	last     map[string]*Rule // of the rules seen so far: the one that decides at its path
}

// newAdding is nothing where no rule only adds, or where there are too many patterns, which is an error of its own.
func newAdding(rules []*Rule, stance Stance) (a adding, ok bool) {
	a = adding{stance: stance, depths: make([]int, len(rules)), last: make(map[string]*Rule, len(rules))}
	var patterns []*Rule
	for i, r := range rules {
		if r.FS.Last != "" {
			r.Index = int32(len(patterns)) // for now
			patterns, a.depths[i] = append(patterns, r), -1
			continue
		}
		a.depths[i] = fspath.Depth(r.FS.Path)
		a.deepest = max(a.deepest, a.depths[i])
		ok = ok || r.Grants()
	}
	if !ok {
		return a, false
	}
	var err error
	a.patterns, err = newFSTable(patterns)
	return a, err == nil
}

// complete adds to a rule what there is without it, and says whether the rule makes no difference then.
func (a *adding) complete(fs *CompiledFS) (idle bool) {
	caps, lifted := a.without(fs.Path)
	idle = fs.Caps&^caps == 0 && (lifted[GuardProtect] || !fs.Unprotect) && (lifted[GuardSecrets] || !fs.Secret)
	fs.Caps |= caps
	fs.Unprotect = fs.Unprotect || lifted[GuardProtect]
	fs.Secret = fs.Secret || lifted[GuardSecrets]
	return idle
}

// without is what the rules seen so far, and the patterns, give at a path.
func (a *adding) without(path string) (Caps, [NumGuards]bool) {
	r, at := a.around(path)
	if i, depth := a.patterns.find(path); i >= 0 && depth > at {
		r = a.patterns.Rule(i)
	}
	switch {
	case r != nil:
		return r.FS.Caps, r.FS.Lifts()
	case a.stance == Allow:
		return AllCaps, [NumGuards]bool{}
	}
	return 0, [NumGuards]bool{}
}

// around is the rule at a path or the nearest one above it, and how deep that is; nil and -1 when there is none.
func (a *adding) around(path string) (r *Rule, depth int) {
	for {
		if r := a.last[path]; r != nil {
			return r, fspath.Depth(path)
		}
		cut := strings.LastIndexByte(path, '/')
		switch {
		case path == "/":
			return nil, -1
		case cut == 0:
			path = "/"
		default:
			path = path[:cut]
		}
	}
}
