package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Access is what one authority's rules grant.
type Access struct {
	Authority string               `json:"authority"`
	FS        section[rule]        `json:"fs"`
	Net       section[netRule]     `json:"net"`
	Env       section[envRule]     `json:"env"`
	Commands  section[commandRule] `json:"commands"`

	Runtime      []rule   `json:"runtime"`
	Protect      guard    `json:"protect"`
	Secrets      guard    `json:"secrets"`
	Namespaces   bool     `json:"namespaces"`
	Syscalls     syscalls `json:"syscalls"`
	Capabilities []string `json:"capabilities"`
	TLSIntercept bool     `json:"tls_intercept"`
	Degraded     []string `json:"allow_degraded"`
}

// section has the rules about one resource.
type section[Rule any] struct {
	Default string `json:"default"`
	Rules   []Rule `json:"rules"`
}

type syscalls struct {
	Profile string   `json:"profile"`
	Allow   []string `json:"allow"`
	Deny    []string `json:"deny"`
}

// guard is protect or secrets.
type guard struct {
	Mode  string `json:"mode"`
	Files []rule `json:"files"`
}

// at is where a rule is.
type at struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// rule is an fs rule, or the name of a set of built-in ones.
type rule struct {
	Set string `json:"set,omitempty"`

	Path      string `json:"path,omitempty"`
	Match     string `json:"match,omitempty"`
	Read      bool   `json:"read,omitempty"`
	Create    bool   `json:"create,omitempty"`
	Update    bool   `json:"update,omitempty"`
	Delete    bool   `json:"delete,omitempty"`
	Execute   bool   `json:"execute,omitempty"`
	Unprotect bool   `json:"unprotect,omitempty"`
	Secret    bool   `json:"secret,omitempty"`
	Optional  bool   `json:"optional,omitempty"`
	NoLink    bool   `json:"no_link,omitempty"`
	Symlink   bool   `json:"symlink,omitempty"`
	At        at     `json:"at,omitzero"`
}

type netRule struct {
	Host       string   `json:"host"`
	Scheme     string   `json:"scheme,omitempty"`
	Port       int      `json:"port,omitempty"`
	PathPrefix string   `json:"path_prefix,omitempty"`
	Methods    []string `json:"methods,omitempty"`
	Protocol   string   `json:"protocol,omitempty"`
	Listen     bool     `json:"listen,omitempty"`
	Allow      bool     `json:"allow"`
	At         at       `json:"at,omitzero"`
}

type envRule struct {
	Name string `json:"name"`
	Read bool   `json:"read"`
	At   at     `json:"at,omitzero"`
}

type commandRule struct {
	Name    string     `json:"name"`
	Args    [][]string `json:"args"`
	HasArgs bool       `json:"has_args"` // an empty list of args allows none
	Envs    []string   `json:"envs"`
	HasEnvs bool       `json:"has_envs"`
	At      at         `json:"at,omitzero"`
}

var (
	defaults = []string{policy.Undeclared: "undeclared", policy.Deny: "deny", policy.Allow: "allow"}
	modes    = []string{policy.ProtectOff: "off", policy.ProtectAuto: "auto", policy.ProtectOn: "on"}
)

// encoder converts the rules of a policy on one machine to those of any.
type encoder struct {
	dir             string // of relative names of files
	workspace, home string
	sets            map[string][]rule
}

// portable returns a path relative to the workspace or to the home, if it's in one of them.
func (e *encoder) portable(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
	case p == e.workspace:
		return "."
	case fspath.Within(p, e.workspace) && e.workspace != "/":
		return strings.TrimPrefix(p, e.workspace+"/")
	case e.home == "" || e.home == "/":
	case p == e.home:
		return "~"
	case fspath.Within(p, e.home):
		return "~" + strings.TrimPrefix(p, e.home)
	}
	return p
}

// file returns the name of a policy's file. One elsewhere on the machine is named without its folder.
func (e *encoder) file(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(e.dir, name)
	}
	if p := e.portable(name); !strings.HasPrefix(p, "/") {
		return p
	}
	return path.Base(name)
}

func (e *encoder) at(p policy.Position) at {
	if builtin(p.File) {
		return at{File: p.File}
	}
	return at{e.file(p.File), p.Line}
}

// action returns the default action that applies: one rule declares a resource.
func action(l *policy.SourceLayer, r policy.Resource, rules int) string {
	if l.Defaults[r] == policy.Undeclared && rules > 0 {
		return defaults[policy.Deny]
	}
	return defaults[l.Defaults[r]]
}

// match is portable for a pattern.
func (e *encoder) match(m string) string {
	base, rest, ok := strings.Cut(m, "/**/")
	if !ok || base == "" {
		return m
	}
	if base = e.portable(base); base == "." {
		return "**/" + rest
	}
	return base + "/**/" + rest
}

// rules replaces the rules of each built-in file by a set.
func (e *encoder) rules(list []policy.FSRule) []rule {
	out := []rule{}
	for len(list) > 0 {
		file, n := list[0].Position.File, 1
		if !builtin(file) {
			out = append(out, e.rule(&list[0]))
			list = list[1:]
			continue
		}
		for n < len(list) && list[n].Position.File == file {
			n++
		}
		out = append(out, rule{Set: e.set(file, list[:n])})
		list = list[n:]
	}
	return out
}

func builtin(file string) bool {
	return strings.HasPrefix(file, "builtin:") || strings.HasPrefix(file, "preset:")
}

// set adds built-in rules as a set, and returns its name.
func (e *encoder) set(file string, list []policy.FSRule) string {
	var rules []rule
	for i := range list {
		r := e.rule(&list[i])
		r.At = at{}
		rules = append(rules, r)
	}
	text, err := json.Marshal(rules)
	if err != nil {
		panic(err) // it's made of strings
	}
	sum := sha256.Sum256(text)
	name := file + "@" + hex.EncodeToString(sum[:4])
	e.sets[name] = rules
	return name
}

func (e *encoder) rule(r *policy.FSRule) rule {
	has := func(c policy.Caps) bool { return r.Caps&c != 0 }
	return rule{
		Path: e.portable(r.Path), Match: e.match(r.Match), Read: has(policy.Read), Create: has(policy.Create), Update: has(policy.Update),
		Delete: has(policy.Delete), Execute: has(policy.Execute), Unprotect: r.Unprotect, Secret: r.Secret, Optional: r.Optional,
		NoLink: r.NoLink, Symlink: r.Symlink, At: e.at(r.Position),
	}
}

// access converts one layer.
func (e *encoder) access(l *policy.SourceLayer) *Access {
	a := &Access{
		Authority: l.Authority.String(), Runtime: e.rules(l.Runtime), Namespaces: l.Namespaces, TLSIntercept: l.TLSIntercept,
		FS:           section[rule]{action(l, policy.FS, len(l.FS)), e.rules(l.FS)},
		Net:          section[netRule]{action(l, policy.Net, len(l.Net)), []netRule{}},
		Env:          section[envRule]{action(l, policy.Env, len(l.Env)), []envRule{}},
		Commands:     section[commandRule]{action(l, policy.Commands, len(l.Commands)), []commandRule{}},
		Protect:      guard{modes[l.Protect], e.rules(l.Protected)},
		Secrets:      guard{modes[l.Secrets], e.rules(l.SecretFiles)},
		Syscalls:     syscalls{l.Syscalls.Profile, l.Syscalls.Allow, l.Syscalls.Deny},
		Capabilities: l.Capabilities,
	}
	for _, r := range l.Net {
		a.Net.Rules = append(a.Net.Rules, netRule{r.Host, r.Scheme, r.Port, r.PathPrefix, r.Methods, r.Protocol, r.Listen, r.Allow, e.at(r.Position)})
	}
	for _, r := range l.Env {
		a.Env.Rules = append(a.Env.Rules, envRule{r.Name, r.Read, e.at(r.Position)})
	}
	for _, r := range l.Commands {
		a.Commands.Rules = append(a.Commands.Rules, commandRule{e.portable(r.Name), r.Args, r.HasArgs, r.Envs, r.HasEnvs, e.at(r.Position)})
	}
	for _, d := range l.Degraded {
		a.Degraded = append(a.Degraded, d.ID)
	}
	return a
}

// layer converts back. The error is that of a manifest that Generate can't have made.
func (a *Access) layer(sets map[string][]rule) (l policy.SourceLayer, err error) {
	fs := func(list []rule) (out []policy.FSRule) {
		for i := range list {
			if name := list[i].Set; name != "" {
				set, ok := sets[name]
				if !ok {
					err = fmt.Errorf("it has no set %q", name)
				}
				file, _, _ := strings.Cut(name, "@")
				for j := range set {
					out = append(out, set[j].policy(policy.Position{File: file, Line: j + 1}))
				}
				continue
			}
			out = append(out, list[i].policy(list[i].At.position()))
		}
		return out
	}
	index := func(words []string, word string) int {
		i := slices.Index(words, word)
		if i < 0 {
			err = fmt.Errorf("it has %q, and not one of %q", word, words)
		}
		return max(i, 0)
	}
	authority, ok := policy.ParseAuthority(a.Authority)
	if !ok {
		return l, fmt.Errorf("it has the authority %q", a.Authority)
	}
	l = policy.SourceLayer{
		Authority: authority, FS: fs(a.FS.Rules), Runtime: fs(a.Runtime), Protected: fs(a.Protect.Files), SecretFiles: fs(a.Secrets.Files),
		Protect: policy.ProtectMode(index(modes, a.Protect.Mode)), Secrets: policy.ProtectMode(index(modes, a.Secrets.Mode)),
		Namespaces: a.Namespaces, Capabilities: a.Capabilities, TLSIntercept: a.TLSIntercept,
		Syscalls: policy.Syscalls{Profile: a.Syscalls.Profile, Allow: a.Syscalls.Allow, Deny: a.Syscalls.Deny},
	}
	for r, word := range []string{policy.FS: a.FS.Default, policy.Net: a.Net.Default, policy.Env: a.Env.Default, policy.Commands: a.Commands.Default} {
		l.Defaults[r] = policy.DefaultAction(index(defaults, word))
	}
	for _, r := range a.Net.Rules {
		l.Net = append(l.Net, policy.NetRule{Host: r.Host, Scheme: r.Scheme, Port: r.Port, PathPrefix: r.PathPrefix, Methods: r.Methods, Protocol: r.Protocol, Listen: r.Listen, Allow: r.Allow, Position: r.At.position()})
	}
	for _, r := range a.Env.Rules {
		l.Env = append(l.Env, policy.EnvRule{Name: r.Name, Read: r.Read, Position: r.At.position()})
	}
	for _, r := range a.Commands.Rules {
		l.Commands = append(l.Commands, policy.CommandRule{Name: r.Name, Args: r.Args, HasArgs: r.HasArgs, Envs: r.Envs, HasEnvs: r.HasEnvs, Position: r.At.position()})
	}
	for _, d := range a.Degraded {
		l.Degraded = append(l.Degraded, policy.Degraded{ID: d})
	}
	return l, err
}

func (a at) position() policy.Position { return policy.Position{File: a.File, Line: a.Line} }

func (r *rule) policy(p policy.Position) policy.FSRule {
	out := policy.FSRule{
		Path: r.Path, Match: r.Match, Unprotect: r.Unprotect, Secret: r.Secret, Optional: r.Optional, NoLink: r.NoLink, Symlink: r.Symlink, Position: p,
	}
	for _, c := range []struct {
		has  bool
		caps policy.Caps
	}{{r.Read, policy.Read}, {r.Create, policy.Create}, {r.Update, policy.Update}, {r.Delete, policy.Delete}, {r.Execute, policy.Execute}} {
		if c.has {
			out.Caps |= c.caps
		}
	}
	return out
}
