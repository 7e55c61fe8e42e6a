package manifest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// Input is what Generate reads.
type Input struct {
	Load   func(tool string, c Caller) (*policy.Source, error) // the policy as it's written, for a tool ("" for none) and a caller
	Dir    string                                              // the folder in which relative names of files are
	Layer  *toolset.Layer                                      // of the policy's own files
	Enters []Transition
	Tables []string // the patterns of the tables that have access
}

// Transition is a command that enters the policy of a tool.
type Transition struct {
	Table string // the pattern of the tool's table that has it; "" for the policy's own
	Enter
}

// generator is the state of Generate.
type generator struct {
	in   Input
	enc  encoder
	base *policy.Source
	set  *toolset.Set
	out  *Manifest
}

// Generate returns the manifest of a policy.
func Generate(in Input) (*Manifest, error) {
	src, err := in.Load("", Caller{})
	if err != nil {
		return nil, err
	}
	g := &generator{in: in, base: src, enc: encoder{in.Dir, src.Workspace, src.Home, map[string][]rule{}}, set: &toolset.Set{Layers: []*toolset.Layer{in.Layer}}}
	g.out = &Manifest{
		Format: format, Version: version, Policy: Policy{Name: src.Name, Files: []string{}}, Agents: []Agent{}, Tools: []Tool{}, Stages: []Stage{},
		Approvals: []Approvals{}, Enter: []Enter{}, Sets: g.enc.sets, Limits: limitsOf(&src.Limits), Protect: []Mode{}, Secrets: []Mode{}, Layer: portableLayer(in.Layer, g.enc.file),
	}
	for _, f := range src.Files {
		if p := g.enc.portable(f); p[0] != '/' {
			g.out.Policy.Files = append(g.out.Policy.Files, p)
		}
	}
	slices.Sort(g.out.Policy.Files)
	session := sessionOf(src)
	g.out.Access = g.enc.access(session)
	g.out.Protect, g.out.Secrets = append(g.out.Protect, Mode{"session", modes[session.Protect]}), append(g.out.Secrets, Mode{"session", modes[session.Secrets]})
	for _, x := range in.Enters {
		if x.Table == "" {
			g.out.Enter = append(g.out.Enter, x.Enter)
		}
	}
	if err := g.stages(); err != nil {
		return nil, err
	}
	if err := g.tools(); err != nil {
		return nil, err
	}
	g.agents()
	g.settings()
	c, err := newSide(g.out).compile("", Caller{}, layouts[0])
	if err != nil {
		return nil, err
	}
	g.out.Policy.Digest = c.Digest
	return g.out, nil
}

// sessionOf returns the session's layer: every policy has one.
func sessionOf(src *policy.Source) *policy.SourceLayer {
	if n := len(src.Layers); n > 0 && src.Layers[n-1].Authority == policy.Session {
		return &src.Layers[n-1]
	}
	return &policy.SourceLayer{Authority: policy.Session}
}

// stages are the layers of the other authorities, for every caller that the policy distinguishes.
func (g *generator) stages() error {
	for _, c := range callers(g.in.Layer) {
		src := g.base
		if c != (Caller{}) {
			var err error
			if src, err = g.in.Load("", c); err != nil {
				return err
			}
		}
		s := Stage{Caller: c, Access: []*Access{}, Limits: limitsOf(&src.Limits)}
		for i := range src.Layers {
			if l := &src.Layers[i]; l.Authority != policy.Session {
				s.Access = append(s.Access, g.enc.access(l))
			}
		}
		g.out.Stages = append(g.out.Stages, s)
	}
	return nil
}

// callers returns the callers that a layer distinguishes, everybody first. An authority restricts, so callers of two authorities, such as an
// agent in a group, need none of their own: what only both permit, each permits. A stage with providers has a policy for both names at once.
func callers(l *toolset.Layer) []Caller {
	all := []Caller{{}}
	names := func(n toolset.Named) []string {
		out := slices.Sorted(maps.Keys(n.Names))
		if (n.All != nil || len(out) > 0) && !slices.Contains(out, "*") {
			out = append([]string{"*"}, out...)
		}
		return out
	}
	for _, name := range names(l.Agent) {
		all = append(all, Caller{Agent: name})
	}
	for _, name := range names(l.Group) {
		all = append(all, Caller{Group: name})
	}
	profiles := names(l.Profile)
	for name, p := range l.Profiles {
		if !p.Rule.Builtin() && !slices.Contains(profiles, name) {
			profiles = append(profiles, name)
		}
	}
	slices.Sort(profiles)
	for _, name := range profiles {
		if name != "*" && l.Profiles[name] != nil {
			all = append(all, Caller{Profile: name})
		}
	}
	providers := names(l.Provider)
	eachStage(l, func(s *toolset.Stage) {
		for name := range s.Providers {
			if !slices.Contains(providers, name) {
				providers = append(providers, name)
			}
		}
	})
	slices.Sort(providers)
	for _, name := range providers {
		all = append(all, Caller{Provider: name})
	}
	if l.Subagent != nil {
		all = append(all, Caller{Depth: 1})
	}
	for _, c := range slices.Clone(all) {
		for _, provider := range nested(l, c) {
			c.Provider = provider
			all = append(all, c)
		}
	}
	return all
}

// nested returns the providers for which the stages of a caller have stages.
func nested(l *toolset.Layer, c Caller) []string {
	var stages []*toolset.Stage
	add := func(n *toolset.Named, name string) {
		if name != "" {
			own, _ := n.For(name)
			stages = append(stages, own, n.All)
		}
	}
	add(&l.Agent, c.Agent)
	add(&l.Group, c.Group)
	profile := c.Profile
	if c.Agent != "" {
		profile = l.ChosenProfile(c.Agent)
	}
	if c != (Caller{}) && profile != "" {
		add(&l.Profile, profile)
		stages = append(stages, l.Profiles[profile])
	}
	if c.Depth > 0 {
		stages = append(stages, l.Subagent)
	}
	out := map[string]bool{}
	for _, s := range stages {
		if s != nil {
			for name := range s.Providers {
				out[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// eachStage calls f for the stages of a layer.
func eachStage(l *toolset.Layer, f func(*toolset.Stage)) {
	var visit func(s *toolset.Stage)
	visit = func(s *toolset.Stage) {
		if s == nil {
			return
		}
		f(s)
		for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
			visit(s.Providers[name])
		}
	}
	for _, n := range []toolset.Named{l.Profile, l.Provider, l.Agent, l.Group, {Names: l.Profiles}} {
		visit(n.All)
		for _, name := range slices.Sorted(maps.Keys(n.Names)) {
			visit(n.Names[name])
		}
	}
	visit(l.Global)
	visit(l.Sandbox)
	visit(l.Subagent)
}

// tools are those that the policy's own files name, and one for each pattern, and for each pair of patterns that have access.
func (g *generator) tools() error {
	names := map[string]bool{}
	for _, t := range g.in.Layer.Tools {
		if !t.Pattern.Rule.Builtin() {
			g.members(t.Pattern.Text, 0, names)
		}
	}
	for _, name := range listed(g.in.Layer) {
		names[name] = true
	}
	for i, a := range g.in.Tables {
		for _, b := range g.in.Tables[:i] {
			if name, ok := toolset.Common(toolset.Normal(a), toolset.Normal(b), "*"); ok {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t, err := g.tool(name)
		if err != nil {
			return err
		}
		g.out.Tools = append(g.out.Tools, *t)
	}
	return nil
}

// maxNested is how deep groups nest.
const maxNested = 16

// members adds the names and globs of a pattern.
func (g *generator) members(pattern string, depth int, names map[string]bool) {
	group, ok := strings.CutPrefix(pattern, toolset.GroupPrefix)
	if !ok {
		names[pattern] = true
		return
	}
	if depth > maxNested {
		return
	}
	for _, e := range g.in.Layer.Groups[group] {
		g.members(e.Text, depth+1, names)
	}
}

// listed returns the names that the policy's own lists allow.
func listed(l *toolset.Layer) (names []string) {
	eachStage(l, func(s *toolset.Stage) {
		for _, e := range slices.Concat(s.Allow, s.AlsoAllow) {
			if !e.Rule.Builtin() && toolset.ValidName(e.Text) {
				names = append(names, e.Text)
			}
		}
	})
	return names
}

func (g *generator) tool(name string) (*Tool, error) {
	s := g.set.Settings(name, "")
	t := &Tool{
		Name: name, Source: s.Source, Kind: s.Kind, Risk: s.Risk, OwnerOnly: s.OwnerOnly, Ask: cmp.Or(s.Ask, "off"), Enter: []Enter{}, Declared: []string{},
		Constraints: constraintsOf(s), Models: modelsOf(g.in.Layer, name),
	}
	about := g.in.Layer.Patterns(name)
	for _, x := range g.in.Enters {
		if x.Table == "" || slices.Contains(about, x.Table) {
			t.Enter = append(t.Enter, x.Enter)
		}
	}
	if !slices.ContainsFunc(g.in.Tables, func(p string) bool { return slices.Contains(about, p) }) {
		return t, nil
	}
	src, err := g.in.Load(name, Caller{})
	if err != nil {
		return nil, err
	}
	t.Access = g.enc.access(sessionOf(src))
	for _, r := range []policy.Resource{policy.FS, policy.Net, policy.Env, policy.Commands} {
		if resourceJSON(t.Access, r) != resourceJSON(g.out.Access, r) {
			t.Declared = append(t.Declared, r.String())
		}
	}
	return t, nil
}

func constraintsOf(s *toolset.Settings) Constraints {
	c := Constraints{MaxInvocations: s.MaxInvocations, OnlyAfter: []string{}, Forbidden: s.Forbidden}
	for _, p := range s.OnlyAfter {
		c.OnlyAfter = append(c.OnlyAfter, p.Text)
	}
	slices.Sort(c.OnlyAfter)
	return c
}

// modelsOf returns the models that see a tool; nil for all.
func modelsOf(l *toolset.Layer, name string) (models []string) {
	about := l.Patterns(name)
	for _, t := range l.Tools {
		if t.HasModels && slices.Contains(about, t.Pattern.Text) {
			models = []string{}
			for _, e := range t.Models {
				models = append(models, e.Text)
			}
		}
	}
	return models
}

func (g *generator) agents() {
	for _, s := range g.out.Stages {
		if s.Agent == "" || s.Caller != (Caller{Agent: s.Agent}) {
			continue
		}
		depth := 1
		if sub := g.in.Layer.Subagent; sub != nil && sub.MaxDepth > 0 {
			depth = sub.MaxDepth
		}
		a := Agent{Name: s.Agent, Profile: g.in.Layer.ChosenProfile(s.Agent), MaxDepth: depth, Tools: []string{}}
		var offered []visibility.Tool
		for _, t := range g.out.Tools {
			offered = append(offered, visibility.Tool{Name: t.Name})
		}
		for i, state := range visibility.Decide(g.set, visibility.Caller{Agent: s.Agent, Owner: true, Sandboxed: true}, offered).Tools {
			if state.Removed == nil {
				a.Tools = append(a.Tools, offered[i].Name)
			}
		}
		g.out.Agents = append(g.out.Agents, a)
	}
}

// settings are the gate, approvals and hooks.
func (g *generator) settings() {
	gate := g.set.Gate()
	g.out.Gate = Gate{gate.Enabled, gate.Strict, gate.AllowParentAccess, gate.Shell, texts(g.in.Layer.Gate.Exclude)}
	if g.out.Gate.Exclude == nil {
		g.out.Gate.Exclude = []string{}
	}
	agents := append([]string{""}, slices.Sorted(maps.Keys(g.in.Layer.Approvals.Agents))...)
	for _, agent := range agents {
		if a := g.set.Approvals(agent); a.Given {
			g.out.Approvals = append(g.out.Approvals, Approvals{agent, a.Security, a.Ask, a.AskFallback, a.Timeout.String()})
		}
	}
	convert := func(list []*toolset.Hook) []Hook {
		out := []Hook{}
		for _, h := range list {
			out = append(out, Hook{h.Command, h.URL, h.Timeout.String(), texts(h.Tools)})
		}
		return out
	}
	g.out.Hooks = Hooks{convert(g.in.Layer.Before), convert(g.in.Layer.After)}
}

func texts(list []toolset.Entry) (out []string) {
	for _, e := range list {
		out = append(out, e.Text)
	}
	return out
}

func limitsOf(l *policy.Limits) map[string]uint64 {
	return map[string]uint64{
		"memory": l.Memory.N, "pids": l.Pids.N, "cpu": l.CPU.N, "io": l.IO.N, "wall_time": uint64(l.WallTime.D), "open_files": l.OpenFiles.N, "file_size": l.FileSize.N,
	}
}
