package manifest

import (
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// layout is where a workspace and a home are.
type layout struct{ workspace, home string }

// layouts are those for which policies are compared: a workspace in the home, and one outside of it.
var layouts = []layout{
	{"/home/toolguard-user/toolguard-workspace", "/home/toolguard-user"},
	{"/toolguard-workspace", "/home/toolguard-user"},
}

// searchPath is where the programs of command rules are.
const searchPath = "/usr/bin:/bin"

// side is one manifest, ready to be asked.
type side struct {
	m        *Manifest
	files    []string // that no command may change: those of both manifests, so that the name of a policy's file makes no difference
	set      *toolset.Set
	layers   map[*Access]policy.SourceLayer
	compiled map[compiledKey]*policy.Compiled
	made     map[Caller]*Stage // of several stages
}

type compiledKey struct {
	access *Access
	caller Caller
	at     layout
}

func newSide(m *Manifest) *side {
	return &side{m: m, files: m.Policy.Files, set: m.setOf(), layers: map[*Access]policy.SourceLayer{}, compiled: map[compiledKey]*policy.Compiled{}, made: map[Caller]*Stage{}}
}

// tree is a file tree in which every path exists, none is a symlink, and all that aren't known as folders are programs.
type tree struct{ at layout }

func (t tree) Lstat(p string) (fspath.Kind, error) {
	if fspath.Within(t.at.workspace, p) || fspath.Within(t.at.home, p) {
		return fspath.Dir, nil
	}
	return fspath.Program, nil
}

func (tree) Readlink(string) (string, error) { return "", errors.New("not a symlink") }

func (tree) Mounts() ([]fspath.Mount, error) { return nil, nil }

func (tree) File(string) (fspath.FileID, uint64, error) { return fspath.FileID{Inode: 1}, 1, nil }

var errLayer = errors.New("its layers aren't in order: generate it again")

// compile returns the policy for a tool ("" for none) and a caller.
func (s *side) compile(tool string, c Caller, at layout) (*policy.Compiled, error) {
	access, stage := s.access(tool), s.stage(c)
	key := compiledKey{access, stage.Caller, at}
	if p := s.compiled[key]; p != nil {
		return p, nil
	}
	src := &policy.Source{Name: s.m.Policy.Name, Workspace: at.workspace, Home: at.home, Path: searchPath}
	for _, f := range s.files {
		src.Files = append(src.Files, at.absolute(f))
	}
	for _, a := range append(slices.Clone(stage.Access), access) {
		l, err := s.layer(a)
		if err != nil {
			return nil, err
		}
		if n := len(src.Layers); n > 0 && src.Layers[n-1].Authority >= l.Authority {
			return nil, errLayer
		}
		src.Layers = append(src.Layers, l)
	}
	p, err := policy.Compile(src, tree{at})
	if err == nil && s.compiled != nil {
		s.compiled[key] = p
	}
	return p, err
}

func (s *side) layer(a *Access) (policy.SourceLayer, error) {
	if l, ok := s.layers[a]; ok {
		return l, nil
	}
	l, err := a.layer(s.m.Sets)
	if err == nil {
		s.layers[a] = l
	}
	return l, err
}

// absolute returns a manifest's path in a layout.
func (at layout) absolute(p string) string {
	switch {
	case p == "~" || len(p) > 1 && p[:2] == "~/":
		return path.Join(at.home, p[1:])
	case p != "" && p[0] == '/':
		return p
	}
	return path.Join(at.workspace, p)
}

// tool returns what the manifest has about a tool: its own entry, else that of a tool to which the same tables with access apply; nil for
// none.
func (s *side) tool(name string) *Tool {
	for i := range s.m.Tools {
		if s.m.Tools[i].Name == name {
			return &s.m.Tools[i]
		}
	}
	return nil
}

// access returns the session's rules for a tool.
func (s *side) access(name string) *Access {
	if name == "" {
		return s.m.Access
	}
	if t := s.tool(name); t != nil {
		if t.Access != nil {
			return t.Access
		}
		return s.m.Access
	}
	about := s.m.Layer.Patterns(name)
	var best *Tool
	for i := range s.m.Tools {
		t := &s.m.Tools[i]
		if t.Access == nil || !toolset.Glob(toolset.Normal(t.Name), s.m.Layer.Canonical(name)) {
			continue
		}
		if slices.Equal(s.m.Layer.Patterns(t.Name), about) {
			return t.Access
		}
		if best == nil || toolset.Compare(best.Name, t.Name) < 0 {
			best = t
		}
	}
	if best != nil {
		return best.Access
	}
	return s.m.Access
}

// stage returns the stage of a caller: its own, else of each authority what the manifest has for the names that it goes by.
func (s *side) stage(c Caller) *Stage {
	if own := s.own(c); own != nil {
		return own
	}
	if made := s.made[c]; made != nil {
		return made
	}
	made := &Stage{Caller: c, Access: []*Access{}, Limits: maps.Clone(s.m.Stages[0].Limits)}
	for a := policy.Builtin; a < policy.Session; a++ {
		from := s.nearest(authorityNames(a, c))
		for name, n := range from.Limits {
			if n > 0 && (made.Limits[name] == 0 || n < made.Limits[name]) {
				made.Limits[name] = n
			}
		}
		for _, x := range from.Access {
			if x.Authority == a.String() {
				made.Access = append(made.Access, x)
			}
		}
	}
	if s.made != nil {
		s.made[c] = made
	}
	return made
}

// authorityNames returns the names of a caller on which the policy of an authority depends.
func authorityNames(a policy.Authority, c Caller) Caller {
	out := Caller{Provider: c.Provider}
	switch a {
	case policy.Profile:
		if out.Profile = c.Profile; c.Profile == "" {
			out.Agent = c.Agent // which may have one
		}
	case policy.Agent:
		out.Agent = c.Agent
	case policy.Group:
		out.Group = c.Group
	case policy.Subagent:
		out.Depth = min(c.Depth, 1)
	}
	return out
}

// nearest returns the stage of a caller, or of the one with "*" for its name, for its provider, that without a model, or any.
func (s *side) nearest(c Caller) *Stage {
	family, _, _ := strings.Cut(c.Provider, "/")
	other := c
	for _, name := range []*string{&other.Agent, &other.Profile, &other.Group} {
		if *name != "" {
			*name = "*"
		}
	}
	alone := Caller{Agent: c.Agent, Profile: c.Profile, Group: c.Group, Depth: c.Depth}
	names := []Caller{c}
	if s.own(alone) == nil {
		names = []Caller{other}
	}
	for _, n := range names {
		for _, provider := range []string{c.Provider, family, "*", ""} {
			if n.Provider = provider; c.Provider == "" && provider != "" {
				continue
			}
			if x := s.own(n); x != nil {
				return x
			}
		}
	}
	for _, provider := range []string{c.Provider, family} { // which every authority may have a policy for
		if x := s.own(Caller{Provider: provider}); x != nil {
			return x
		}
	}
	return &s.m.Stages[0]
}

func (s *side) own(c Caller) *Stage {
	for i := range s.m.Stages {
		if s.m.Stages[i].Caller == c {
			return &s.m.Stages[i]
		}
	}
	return nil
}

// resourceJSON identifies the rules of one resource. Two that are equal decide the same.
func resourceJSON(a *Access, r policy.Resource) string {
	b := *a
	switch r {
	case policy.FS:
		return text([]any{b.FS, b.Runtime, b.Protect, b.Secrets})
	case policy.Net:
		return text(b.Net)
	case policy.Env:
		return text(b.Env)
	}
	return text(b.Commands)
}

func text(v any) string {
	t, err := json.Marshal(v)
	if err != nil {
		panic(err) // it's made of strings, numbers and lists
	}
	return string(t)
}
