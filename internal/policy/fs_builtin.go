package policy

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Grants reports whether a rule only adds capabilities. Those are the rules of built-in files for paths outside the workspace, which exist so
// that programs can read the files that they need. A preset's rule for the workspace is like any other rule for it.
func (r *Rule) Grants() bool {
	outside := strings.HasPrefix(r.FS.Written, "/") || strings.HasPrefix(r.FS.Written, "~")
	return outside && r.Authority != Builtin && isBuiltinFile(r.Position.File)
}

// completeGrants adds to every rule of a layer that only grants the capabilities that its path has without it, and leaves out a rule that
// adds nothing to them. This removes no capability: without the rule, the one rule that it's compared with would decide all that it
// decides, beneath its path too.
func completeGrants(rules []*Rule, defaultAction DefaultAction) []*Rule {
	a, ok := newAdding(rules, defaultAction)
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

// adding is the state of completeGrants for a layer.
type adding struct {
	defaultAction DefaultAction
	depths        []int // of the rules; -1 for patterns
	deepest       int
	patterns      *FSTable
	last          map[string]*Rule // of the rules seen so far: the one that decides at its path
}

// newAdding returns false if no rule only grants, or if there are too many patterns, which is a separate error.
func newAdding(rules []*Rule, defaultAction DefaultAction) (a adding, ok bool) {
	a = adding{defaultAction: defaultAction, depths: make([]int, len(rules)), last: make(map[string]*Rule, len(rules))}
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

// complete adds to a rule the capabilities that its path has without it, and reports whether the rule then makes no difference.
func (a *adding) complete(fs *CompiledFS) (idle bool) {
	caps, lifted := a.without(fs.Path)
	idle = fs.Caps&^caps == 0 && (lifted[RestrictProtect] || !fs.Unprotect) && (lifted[RestrictSecrets] || !fs.Secret)
	fs.Caps |= caps
	fs.Unprotect = fs.Unprotect || lifted[RestrictProtect]
	fs.Secret = fs.Secret || lifted[RestrictSecrets]
	return idle
}

// without returns the capabilities and exemptions that a path has by the rules seen so far and the patterns.
func (a *adding) without(path string) (Caps, [NumRestrictions]bool) {
	r, at := a.around(path)
	if i, depth := a.patterns.find(path); i >= 0 && depth > at {
		r = a.patterns.Rule(i)
	}
	switch {
	case r != nil:
		return r.FS.Caps, r.FS.Exempts()
	case a.defaultAction == Allow:
		return AllCaps, [NumRestrictions]bool{}
	}
	return 0, [NumRestrictions]bool{}
}

// around returns the rule at a path or the nearest one above it, and its depth; nil and -1 if there is none.
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
