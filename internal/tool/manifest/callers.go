package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// known returns the callers that one of the manifests distinguishes, by one name each or as its stages have them; everybody first.
func (v *verifier) known() (all []Caller) {
	add := func(c Caller) {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	add(Caller{})
	for _, s := range []*side{v.old, v.new} {
		for _, x := range s.m.Stages {
			add(x.Caller)
		}
		for _, t := range s.m.Layer.Tools {
			for _, e := range t.Models {
				add(Caller{Provider: strings.ReplaceAll(e.Text, "*", "x")})
			}
		}
		eachStage(s.m.Layer, func(s *toolset.Stage) {
			for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
				add(Caller{Provider: name})
			}
		})
		depth := depthOf(s.m.Layer)
		add(Caller{Depth: depth})
		add(Caller{Depth: depth + 1})
	}
	add(Caller{Provider: "toolguard-example"})
	add(Caller{Depth: 1})
	return all
}

// maxProduct is how many callers are combined of all the names that they can have. With more of them, each two are.
const maxProduct = 256

// combinations returns callers and what is for two of them at once: an agent with a provider, in a group.
func combinations(known []Caller) []Caller {
	all, seen := slices.Clone(known), map[Caller]bool{}
	for _, c := range known {
		seen[c] = true
	}
	more := known
	for len(more) > 0 && len(all) <= maxProduct {
		var next []Caller
		for _, a := range more {
			for _, b := range known {
				if c, ok := combine(a, b); ok && !seen[c] {
					seen[c] = true
					next = append(next, c)
				}
			}
		}
		all, more = append(all, next...), next
	}
	return all
}

// combine returns a caller with the names of both, if no two of them are of one kind.
func combine(a, b Caller) (c Caller, ok bool) {
	ok = (a.Agent == "" || b.Agent == "") && (a.Profile == "" || b.Profile == "") && (a.Provider == "" || b.Provider == "") &&
		(a.Group == "" || b.Group == "") && (a.Depth == 0 || b.Depth == 0)
	return Caller{a.Agent + b.Agent, a.Profile + b.Profile, a.Provider + b.Provider, a.Group + b.Group, a.Depth + b.Depth}, ok
}

// combined returns the callers that see tools.
func (v *verifier) combined() (all []visibility.Caller) {
	owners, sandboxes := []bool{false}, []bool{true}
	for _, l := range []*toolset.Layer{v.old.m.Layer, v.new.m.Layer} {
		if len(owners) == 1 && slices.ContainsFunc(l.Tools, func(t *toolset.Tool) bool { return t.OwnerOnly != nil }) {
			owners = append(owners, true)
		}
		if len(sandboxes) == 1 && l.Sandbox != nil {
			sandboxes = append(sandboxes, false)
		}
	}
	for _, c := range combinations(v.known()) {
		provider, model, _ := strings.Cut(c.Provider, "/")
		for _, owner := range owners {
			for _, sandboxed := range sandboxes {
				all = append(all, visibility.Caller{
					Agent: c.Agent, Profile: c.Profile, Provider: provider, Model: model, Group: c.Group, Depth: c.Depth, Owner: owner, Sandboxed: sandboxed,
				})
			}
		}
	}
	return all
}
