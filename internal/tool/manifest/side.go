package manifest

import (
	"encoding/json"
	"errors"
	"path"
	"slices"

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
}

type compiledKey struct {
	access *Access
	caller Caller
	at     layout
}

func newSide(m *Manifest) *side {
	return &side{m: m, files: m.Policy.Files, set: m.setOf(), layers: map[*Access]policy.SourceLayer{}, compiled: map[compiledKey]*policy.Compiled{}}
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

// stage returns the stage of a caller, that of callers with fewer names, or that of every caller.
func (s *side) stage(c Caller) *Stage {
	other := c
	for _, name := range []*string{&other.Agent, &other.Profile, &other.Provider, &other.Group} {
		if *name != "" {
			*name = "*"
		}
	}
	for _, want := range []Caller{c, other} {
		for i := range s.m.Stages {
			if s.m.Stages[i].Caller == want {
				return &s.m.Stages[i]
			}
		}
	}
	return &s.m.Stages[0]
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
