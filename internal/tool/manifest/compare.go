package manifest

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Use is something that a session did or tried.
type Use struct {
	Tool, Agent string // on whose behalf; "" for none
	Call        bool   // a call of Tool; the other fields are empty

	Resource, Action, Target string
	Argv                     []string // for commands
	Count                    uint64
}

// Place is where the sessions ran whose uses are compared.
type Place struct{ Workspace, Home string }

// Undeclared is a use that the manifest doesn't permit.
type Undeclared struct {
	Tool     string `json:"tool"`
	Resource string `json:"resource"`
	Target   string `json:"target"`
	Count    uint64 `json:"count"`
	Hint     string `json:"hint"`
}

// Unused is what the manifest permits and no use needed.
type Unused struct {
	Tool     string `json:"tool"`
	Resource string `json:"resource"`
	Name     string `json:"name"`
}

// Comparison is what Compare finds.
type Comparison struct {
	Undeclared []Undeclared `json:"undeclared"`
	Unused     []Unused     `json:"unused"`
	NoTable    []string     `json:"no_table"`
}

const hint = "widen or remove"

// Compare compares what a manifest permits with what was done. Uses of files, hosts and variables are recorded only where they were denied,
// so that only tools and commands can be unused: tools if calls were recorded, commands if their execution was.
func Compare(m *Manifest, at Place, uses []Use) (*Comparison, error) {
	s := newSide(m)
	c := &compared{side: s, at: layout{path.Clean(at.Workspace), path.Clean(cmp.Or(at.Home, "/"))}, counts: map[Undeclared]uint64{}, tools: map[string]bool{}, commands: map[string]bool{}}
	out := &Comparison{Undeclared: []Undeclared{}, Unused: []Unused{}, NoTable: []string{}}
	for i := range uses {
		if err := c.use(&uses[i]); err != nil {
			return nil, err
		}
	}
	for u, n := range c.counts {
		u.Count = n
		out.Undeclared = append(out.Undeclared, u)
	}
	slices.SortFunc(out.Undeclared, func(a, b Undeclared) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Target, b.Target))
	})
	for _, name := range slices.Sorted(maps.Keys(c.tools)) {
		if name != "" && !c.hasTable(name) {
			out.NoTable = append(out.NoTable, name)
		}
	}
	out.Unused = append(out.Unused, c.unused()...)
	return out, nil
}

// compared is the state of Compare.
type compared struct {
	*side
	at       layout
	counts   map[Undeclared]uint64
	tools    map[string]bool // that were called, or on whose behalf something was done
	called   bool            // calls were recorded
	commands map[string]bool // programs that were executed, by name
}

func (c *compared) use(u *Use) error {
	c.tools[u.Tool] = true
	if u.Call {
		c.called = true
		return nil
	}
	q, err := explain.ParseQuestion(u.Resource, u.Action)
	if err != nil {
		return nil // an event about something else
	}
	q.Target, q.Argv = u.Target, u.Argv
	if q.Resource == policy.Commands {
		if len(q.Argv) == 0 {
			q.Argv = []string{u.Target}
		}
		c.commands[path.Base(q.Argv[0])] = true
	}
	p, err := c.compile(u.Tool, Caller{Agent: u.Agent}, c.at)
	if err != nil {
		return err
	}
	if v, _ := explain.Ask(p, tree{c.at}, q); v.Allow {
		return nil
	}
	target := u.Target
	if q.Resource == policy.FS {
		target = c.at.portable(target)
	}
	c.counts[Undeclared{Tool: u.Tool, Resource: q.Resource.String(), Target: target, Hint: hint}] += max(u.Count, 1)
	return nil
}

// hasTable reports whether one of the policy's own tables is about a tool.
func (c *compared) hasTable(name string) bool {
	about := c.m.Layer.Patterns(name)
	return slices.ContainsFunc(c.m.Layer.Tools, func(t *toolset.Tool) bool {
		return !t.Pattern.Rule.Builtin() && slices.Contains(about, t.Pattern.Text)
	})
}

func (c *compared) unused() (all []Unused) {
	if c.called {
		for _, t := range c.m.Tools {
			if !strings.Contains(t.Name, "*") && !c.tools[t.Name] {
				all = append(all, Unused{t.Name, "tools", t.Name})
			}
		}
	}
	if len(c.commands) == 0 {
		return all
	}
	names := words{}
	for _, r := range c.m.Access.Commands.Rules {
		names.add(r.Name)
	}
	for _, n := range names.list {
		if !c.commands[path.Base(n)] {
			all = append(all, Unused{"", policy.Commands.String(), n})
		}
	}
	return all
}
