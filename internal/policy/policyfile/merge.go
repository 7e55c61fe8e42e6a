package policyfile

import (
	"cmp"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// source merges the files into one layer for each authority.
func (l *loader) source() *policy.Source {
	src := &policy.Source{Name: "default", Home: l.req.Home, Path: l.req.Path, TmpDir: l.req.TmpDir}
	src.Workspace, src.Chosen = l.workspace()
	src.NeverHome = l.req.NeverHome
	l.workspaceDir, _ = l.files.Real(src.Workspace)
	l.git = l.repository(src.Workspace)
	src.Repository = l.git
	for _, f := range l.doc.Files {
		if f.Path != "" && !slices.Contains(src.Files, f.Path) {
			src.Files = append(src.Files, f.Path)
		}
		if w := f.Policy.Workspace; w != nil && f.Authority == policy.Host {
			l.fail(w.Position, "remove it", "a policy of the host can't choose the workspace")
		}
		if f.Authority == policy.Session {
			src.Name = f.title()
		}
		for _, k := range f.Policy.ToolKeys {
			if f.Authority != policy.Session {
				k.ID = f.Authority.String() + "." + k.ID
			}
			src.ToolKeys = append(src.ToolKeys, k)
		}
		if f.Policy.Audit == "exec" && !src.Audit.Exec {
			src.Audit = policy.Audit{Exec: true, Position: f.Policy.Position.At(f.Policy.AuditAt)}
		}
	}
	l.checkTools()
	var pieces [policy.NumAuthorities][]piece
	for _, f := range l.doc.Files {
		for _, p := range l.pieces(f) {
			pieces[p.authority] = append(pieces[p.authority], p)
		}
	}
	l.separate(&pieces)
	for authority := range pieces {
		l.layer(src, policy.Authority(authority), pieces[authority])
	}
	src.Limits = l.limits(&pieces)
	return src
}

// title is the policy's name, or the file's.
func (f *File) title() string {
	if f.Policy.Name != "" {
		return f.Policy.Name
	}
	return strings.TrimSuffix(filepath.Base(f.Name), ".toml")
}

// workspace returns the requested one, with what names it, else that of the last file of the session that has one, else the project
// around the current folder.
func (l *loader) workspace() (dir string, chosen policy.Position) {
	if l.req.Workspace != "" {
		return absolute(l.req.Workspace, l.req.Dir), policy.Position{File: "--workspace"}
	}
	for _, f := range slices.Backward(l.doc.Files) {
		if w := f.Policy.Workspace; w != nil && f.Authority == policy.Session {
			return l.expand(w, f), w.Position
		}
	}
	return findWorkspace(l.req.Dir, append([]string{l.req.Home}, l.req.NeverHome...), l.files), policy.Position{}
}

// expand resolves a workspace as the file means it: relative to the file's folder, or to the home.
func (l *loader) expand(w *Text, f *File) string {
	if rest, ok := strings.CutPrefix(w.S, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(l.req.Home, rest)
	}
	dir := l.req.Dir
	if f.Path != "" {
		dir = filepath.Dir(f.Path)
	}
	return absolute(w.S, dir)
}

// piece is the part of a file for one authority.
type piece struct {
	authority policy.Authority
	file      *File
	access    *Access
	limits    *Limits
	tool      string // the pattern whose access it is; "" for the rest
}

// pieces splits a file: its own [access], that of the tool, and those of the other authorities.
func (l *loader) pieces(f *File) []piece {
	out := []piece{{authority: f.Authority, file: f, access: f.Policy.Access, limits: &f.Policy.Limits}}
	a := &f.Policy.Authorities
	add := func(authority policy.Authority, s *Stage) {
		if s == nil {
			return
		}
		out = append(out, piece{authority: authority, file: f, access: s.Access, limits: &s.Limits})
		for _, p := range ofProvider(s.Providers, l.req.Provider) {
			out = append(out, piece{authority: authority, file: f, access: p.Access, limits: &p.Limits})
		}
	}
	named := func(authority policy.Authority, n *Named, name string) {
		if n != nil {
			add(authority, &n.Stage)
			if s := n.Names[name]; s != nil || name != "" {
				add(authority, cmp.Or(s, n.Names["*"]))
			}
		}
	}
	profile := l.profile(f)
	add(policy.Profile, f.Policy.Profiles[profile])
	named(policy.Profile, a.Profile, profile)
	if p := a.Provider; p != nil {
		own := ofProvider(p.Names, l.req.Provider)
		if own == nil && l.req.Provider != "" {
			own = append(own, p.Names["*"])
		}
		for _, s := range append([]*Stage{&p.Stage}, own...) {
			add(policy.Provider, s)
		}
	}
	add(policy.Global, a.Global)
	named(policy.Agent, a.Agent, l.req.Agent)
	named(policy.Group, a.Group, l.req.Group)
	add(policy.Sandbox, a.Sandbox)
	if l.req.Depth > 0 {
		add(policy.Subagent, a.Subagent)
	}
	return append(out, l.toolPieces(f)...)
}

// ofProvider returns the stages of PROVIDER/MODEL, or else those of the provider. The names are compared in any case.
func ofProvider(stages map[string]*Stage, provider string) (out []*Stage) {
	for _, name := range slices.Sorted(maps.Keys(stages)) {
		if strings.EqualFold(name, provider) {
			out = append(out, stages[name])
		}
	}
	if name, _, ok := strings.Cut(provider, "/"); ok && out == nil {
		return ofProvider(stages, name)
	}
	return out
}

// profile is the name of the profile whose grants a file has: the requested one, else the one that the author's files choose.
func (l *loader) profile(f *File) string {
	if l.req.Profile != "" || f.Policy.Profiles == nil && f.Policy.Authorities.Profile == nil {
		return l.req.Profile
	}
	return l.toolLayer(f.Authority).ChosenProfile(l.req.Agent)
}

// separate rejects an authority for which both a session's file and the host's have a policy: merging could widen the
// host's.
func (l *loader) separate(pieces *[policy.NumAuthorities][]piece) {
	for authority, list := range pieces {
		host := slices.IndexFunc(list, func(p piece) bool { return p.access != nil && p.file.Authority == policy.Host })
		own := slices.IndexFunc(list, func(p piece) bool { return p.access != nil && p.file.Authority != policy.Host })
		if host != -1 && own != -1 {
			l.fail(list[own].access.Position, "remove it; only the host's files can have it",
				"%s already has a policy for authority %s", list[host].access.Position, policy.Authority(authority))
		}
	}
}

// layer merges the pieces of one authority and appends its layer.
func (l *loader) layer(src *policy.Source, authority policy.Authority, pieces []piece) {
	slices.SortStableFunc(pieces, func(a, b piece) int { return compareTools(a.tool, b.tool) })
	m := merged{runtime: true}
	if authority == policy.Session {
		m.Protect, m.Secrets = policy.ProtectAuto, policy.ProtectAuto
	}
	if authority == policy.Session && l.req.AddDetected {
		src.Detected = m.detected(l, src.Workspace, true, true)
	}
	for _, p := range pieces {
		if p.access != nil {
			m.add(l, p.access)
		}
	}
	if authority == policy.Session {
		src.Detected = append(src.Detected, m.complete(l, src.Workspace)...)
	} else if !m.given {
		return
	}
	m.Authority = authority
	if m.runtime {
		m.Runtime = l.builtinRules("runtime")
	}
	if m.Protect != policy.ProtectOff {
		m.Protected = l.builtinRules("protect")
	}
	if m.Secrets != policy.ProtectOff {
		m.SecretFiles = l.builtinRules("secrets")
	}
	src.Layers = append(src.Layers, m.SourceLayer)
}

// complete takes every resource that the session's files don't declare from the built-in default policy, so that the first rule of a
// policy opens no other resource. For files and variables it adds the rules of the detected presets.
func (m *merged) complete(l *loader, workspace string) (found []policy.Detected) {
	rules := [policy.NumResources]int{len(m.FS), len(m.Net), len(m.Env), len(m.Commands)}
	var declared [policy.NumResources]bool
	for r, action := range m.Defaults {
		declared[r] = rules[r] > 0 || action != policy.Undeclared
	}
	given, position := m.given, m.Position
	add := func(a Access) {
		for r, yes := range declared {
			if yes {
				a.undeclare(policy.Resource(r))
			}
		}
		m.add(l, &a)
	}
	add(*builtinPolicy("default").Access)
	found = m.detected(l, workspace, !declared[policy.FS], !declared[policy.Env])
	if given {
		m.Position = position
	}
	return found
}

// detected adds the rules of the detected presets: for files, for variables, or for both.
func (m *merged) detected(l *loader, workspace string, fs, env bool) (found []policy.Detected) {
	if l.req.NoDetect || !fs && !env {
		return nil
	}
	found = detect(workspace, l.req.Command, l.files)
	for _, d := range found {
		a := *builtinPolicy("preset_" + strings.TrimPrefix(d.Preset, presetPrefix)).Access
		a = Access{FS: a.FS, Env: List[Env]{Dedup, a.Env.Items, true}}
		if !fs {
			a.undeclare(policy.FS)
		}
		if !env {
			a.undeclare(policy.Env)
		}
		m.add(l, &a)
	}
	if fs {
		m.FS = append(m.FS, l.toolchains()...)
	}
	return found
}

// merged is the state of merging a layer.
type merged struct {
	policy.SourceLayer
	given   bool
	runtime bool
}

// add merges a later [access].
func (m *merged) add(l *loader, a *Access) {
	m.given = true
	m.Position = a.Position
	for r, s := range a.Default {
		if s != policy.Undeclared {
			m.Defaults[r] = s
		}
	}
	if a.Runtime != nil {
		m.runtime = *a.Runtime
	}
	if a.Protect != nil {
		m.Protect = policy.ProtectMode(*a.Protect)
	}
	if a.Secrets != nil {
		m.Secrets = policy.ProtectMode(*a.Secrets)
	}
	if a.Namespaces != nil {
		m.Namespaces = *a.Namespaces
	}
	if a.TLSIntercept != nil {
		m.TLSIntercept = *a.TLSIntercept
	}
	m.addSyscalls(a.Syscalls)
	m.Capabilities = join(m.Capabilities, convert(a.Capabilities, Text.string), same)
	m.Degraded = join(m.Degraded, convert(a.Degraded, func(t Text) policy.Degraded {
		return policy.Degraded{ID: t.S, Position: t.Position}
	}), func(a, b policy.Degraded) bool { return a.ID == b.ID })
	m.addRules(l, a)
}

func (m *merged) addRules(l *loader, a *Access) {
	if strings.HasPrefix(a.Position.File, presetPrefix) && len(a.Env.Items) > 0 { // in addition to what every program needs
		m.Env = join(m.Env, convert(List[Env]{Dedup, builtinPolicy("default").Access.Env.Items, true}, func(r Env) policy.EnvRule { return r.rule() }),
			func(a, b policy.EnvRule) bool { return a.Name == b.Name && a.Read == b.Read })
	}
	m.FS = join(m.FS, List[policy.FSRule]{a.FS.Strategy, l.fsRules(a.FS.Items), a.FS.Given}, func(a, b policy.FSRule) bool {
		a.Position, a.Value, a.Optional = b.Position, b.Value, b.Optional
		return a == b
	})
	m.Net = join(m.Net, convert(a.Net, func(r Net) policy.NetRule { return r.rule() }), func(a, b policy.NetRule) bool {
		a.Position, a.Value = b.Position, b.Value
		return reflect.DeepEqual(a, b)
	})
	m.Env = join(m.Env, convert(a.Env, func(r Env) policy.EnvRule { return r.rule() }), func(a, b policy.EnvRule) bool {
		return a.Name == b.Name && a.Read == b.Read
	})
	m.addCommands(&a.Commands)
}

func (m *merged) addSyscalls(s *Syscalls) {
	if s == nil {
		return
	}
	m.Syscalls.Position = s.Position
	if s.Profile != "" {
		m.Syscalls.Profile = s.Profile
	}
	m.Syscalls.Allow = join(m.Syscalls.Allow, convert(s.Allow, Text.string), same)
	m.Syscalls.Deny = join(m.Syscalls.Deny, convert(s.Deny, Text.string), same)
}

// addCommands merges by program: tables of one program key by key, others independently.
func (m *merged) addCommands(set *CommandSet) {
	if set.Strategy == Replace {
		m.Commands = nil
	}
	var fresh []policy.CommandRule
	for i := range set.Items {
		c := &set.Items[i]
		rule := policy.CommandRule{Name: c.Name}
		at := slices.IndexFunc(m.Commands, func(r policy.CommandRule) bool { return r.Name == c.Name })
		if at >= 0 {
			rule = m.Commands[at]
		}
		rule.Position = c.Position
		rule.Args, rule.HasArgs = join(rule.Args, convert(c.Args, func(a Argv) []string { return a }), slices.Equal[[]string]), rule.HasArgs || c.Args.Given
		rule.Envs, rule.HasEnvs = join(rule.Envs, convert(c.Envs, Text.string), same), rule.HasEnvs || c.Envs.Given
		rule.Match = joinTests(rule.Match, c.Match)
		rule.NotMatch = joinTests(rule.NotMatch, c.NotMatch)
		if at >= 0 {
			m.Commands[at] = rule
		} else {
			fresh = append(fresh, rule)
		}
	}
	if set.Strategy == Prepend {
		m.Commands = slices.Concat(fresh, m.Commands)
	} else {
		m.Commands = slices.Concat(m.Commands, fresh)
	}
}

func joinTests(earlier []policy.SelfTest, later List[SelfTest]) []policy.SelfTest {
	return join(earlier, convert(later, func(t SelfTest) policy.SelfTest { return policy.SelfTest{Argv: t.Argv, Position: t.Position} }),
		func(a, b policy.SelfTest) bool { return slices.Equal(a.Argv, b.Argv) })
}

func (t Text) string() string { return t.S }

func same(a, b string) bool { return a == b }

// convert converts the elements of a list.
func convert[A, B any](l List[A], f func(A) B) List[B] {
	out := List[B]{Strategy: l.Strategy, Given: l.Given, Items: make([]B, len(l.Items))}
	for i, x := range l.Items {
		out.Items[i] = f(x)
	}
	return out
}

// limits merges inside each authority, and returns the smallest over all of them and the requested ones.
func (l *loader) limits(pieces *[policy.NumAuthorities][]piece) policy.Limits {
	var all policy.Limits
	for _, list := range pieces {
		// The host's and the session's limits for one authority stay separate, as with access.
		var host, own policy.Limits
		for _, p := range list {
			if p.limits == nil {
				continue
			}
			if p.file.Authority == policy.Host {
				p.limits.over(&host)
			} else {
				p.limits.over(&own)
			}
		}
		all = restrict(all, restrict(host, own))
	}
	asked, errs := parseLimits(l.req.Limits)
	l.errs = append(l.errs, errs...)
	return restrict(all, asked)
}
