package explain

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/envname"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// suggest returns the smallest rule that would make the denying layer allow the request, as TOML to paste at the end of the policy of
// its authority. It's empty where no rule can, or if a grant needs thought: then advice has the reason.
func suggest(c *policy.Compiled, v policy.Verdict, l *policy.Layer, a *asked) (rule, advice string) {
	if l.Authority == policy.Builtin || !utf8.ValidString(a.target) {
		return "", ""
	}
	if by := hostFile(c, v, l); by != "" {
		return "", "the policy of this machine, " + by + ", decides this: only root can change it"
	}
	table := func(header string, k tomltext.Keys) string { return k.Table(tableHeader(l.Authority, header)) }
	switch a.Resource {
	case policy.FS:
		r, ok := suggestFS(c, v, l, a)
		if !ok {
			return "", ""
		}
		if rules := suggestRepository(c, l, a); rules != nil {
			for _, r := range rules {
				rule += table("[[access.fs]]", fsKeys(&r))
			}
			return rule, "it's the git repository that the workspace is a linked worktree or a submodule of: extends = [\"preset:git\"] grants everything that a commit needs"
		}
		if advice := adviceFS(c, l, a); advice != "" {
			if !a.Anyway || wide(c, a.target) {
				return "", advice
			}
			r.Unprotect = r.Unprotect || a.Caps&policy.Write != 0 && l.Protect.Deciding(a.target) != nil
			r.Secret = r.Secret || a.Caps&^policy.Write != 0 && l.Secret(a.target)
			return table("[[access.fs]]", fsKeys(&r)), ""
		}
		if r, ok = withoutRandom(c, r, a.target); !ok {
			return "", "the name is random, and the next one differs: grant the folder, if that is intended"
		}
		return table("[[access.fs]]", fsKeys(&r)), ""
	case policy.Net:
		if r, ok := suggestNet(v, l, a); ok {
			return table("[[access.net]]", netKeys(&r)), ""
		}
	case policy.Env:
		switch {
		case envname.Check(a.target) != nil || strings.HasSuffix(a.target, "*"):
		case envname.LooksSecret(a.target) && !a.Anyway:
			return "", "its name is that of a secret: to let the session have it all the same, write a rule for exactly this name"
		default:
			return table("[[access.env]]", envKeys(&policy.EnvRule{Name: a.target, Read: true})), ""
		}
	case policy.Commands:
		if r, ok := suggestCommand(v, l, a); ok {
			return table("["+commandHeader(r.Name)+"]", commandKeys(&r)), ""
		}
	}
	return "", ""
}

// in returns the header of a table of [access] for the authority.
func tableHeader(a policy.Authority, header string) string {
	if a == policy.Session {
		return header
	}
	return strings.Replace(header, "access", "authorities."+a.String()+".access", 1)
}

// hostFile is the host's policy that decided; "" where it's none of the host's.
func hostFile(c *policy.Compiled, v policy.Verdict, l *policy.Layer) string {
	position := l.Position
	if v.Rule >= 0 && int(v.Rule) < len(c.Rules) && !c.Rules[v.Rule].Builtin() {
		position = c.Rules[v.Rule].Position
	}
	if l.Authority == policy.Host || fspath.Within(position.File, policy.HostFolder) {
		return position.String()
	}
	return ""
}

// adviceFS returns why a file needs thought before it's granted, and what a grant needs; "" for any other file.
func adviceFS(c *policy.Compiled, l *policy.Layer, a *asked) string {
	switch {
	case a.Caps&policy.Write != 0 && l.Protect.Deciding(a.target) != nil:
		return "programs outside the session obey this file: to let the command change it all the same, write a rule for exactly this path with unprotect = true"
	case slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return l.Secret(a.target) }):
		return "credentials are kept here: to grant it all the same, write a rule for exactly this path with secret = true"
	case a.Caps&policy.Update != 0 && slices.Contains(rootSockets, path.Base(a.target)):
		return "a client of this socket can run commands as root on this machine: to grant it all the same, write a rule for exactly this path"
	case wide(c, a.target):
		return "a rule for it would open everything beneath it: grant the needed part of it"
	}
	return ""
}

// suggestFS repeats the capabilities of the deciding rule, which the new rule would override.
func suggestFS(c *policy.Compiled, v policy.Verdict, l *policy.Layer, a *asked) (r policy.FSRule, ok bool) {
	switch v.Reason {
	case policy.NoRule, policy.RuleDenies, policy.OutsideWorkspace, policy.WorkspaceEscape, policy.Protected:
	default:
		return r, false
	}
	r = policy.FSRule{Path: relative(c, a.target), Caps: a.Caps}
	if a.Symlink { // a path would be where it leads
		r.Path, r.Match = "", "**/"+path.Base(a.target)
		if dir := path.Dir(a.target); dir != c.Workspace {
			r.Match = strings.TrimSuffix(relative(c, dir), "/") + "/" + r.Match
		}
		if _, err := fspath.ParsePattern(r.Match); err != nil {
			return r, false
		}
	}
	if d := l.FS.Deciding(a.target); d != nil {
		r.Caps |= d.FS.Caps
		r.Unprotect, r.Secret = d.FS.Unprotect, d.FS.Secret
	}
	return r, true
}

// suggestRepository is what git needs of the workspace's repository, where that is outside and something of it is asked for: all of it to read,
// and to write the folder that is to be written. Its hooks and its configuration, which other programs obey, stay protected.
func suggestRepository(c *policy.Compiled, l *policy.Layer, a *asked) []policy.FSRule {
	g := c.Repository
	if g.Common == "" || !fspath.Within(a.target, g.Common) || a.Caps&policy.Write != 0 && l.Protect.Deciding(a.target) != nil {
		return nil
	}
	rules := []policy.FSRule{{Path: g.Common, Caps: policy.Read}}
	if a.Caps&^policy.Read == 0 {
		return rules
	}
	for _, p := range []string{g.Common + "/objects", g.Common + "/refs", g.Common + "/logs", g.Dir} {
		if fspath.Within(a.target, p) {
			return append(rules, policy.FSRule{Path: p, Caps: policy.Read | policy.Write})
		}
	}
	return nil
}

// relative writes a canonical path as a person would: relative to the workspace when it's inside.
func relative(c *policy.Compiled, p string) string {
	switch {
	case p == c.Workspace:
		return "."
	case c.Workspace == "/" || !fspath.Within(p, c.Workspace):
		return p
	}
	rel := p[len(c.Workspace)+1:]
	if rel[0] == '~' {
		rel = "./" + rel
	}
	return rel
}

// suggestNet names the fewest keys that beat the deciding rule, a later rule winning a tie, and that grant no other request than the one
// that was denied, nor what lies beneath its path.
func suggestNet(v policy.Verdict, l *policy.Layer, a *asked) (r policy.NetRule, ok bool) {
	switch v.Reason {
	case policy.HostNotListed, policy.RuleDenies, policy.PrivateAddress:
	default:
		return r, false
	}
	if a.net.Port == 0 {
		return r, false // there is no known target that a rule could grant
	}
	schemes := append([]string{a.net.Scheme}, l.Net.LooksLike(&a.net)...) // a scheme that looks the same may be the denied one
	for _, scheme := range schemes {
		t := a.net
		t.Scheme = scheme
		r = newNetRule(&t, l.TLSIntercept)
		for _, port := range []int{r.Port, int(t.Port)} {
			if r.Port = port; l.Net.AllowsWith(&a.net, &r, l.TLSIntercept) {
				return r, true
			}
		}
		if r.Scheme = ""; a.Scheme == "" && l.Net.AllowsWith(&a.net, &r, l.TLSIntercept) { // any content on the port
			return r, true
		}
	}
	return r, false
}

// newNetRule grants a target, with the fewest keys.
func newNetRule(t *netname.Target, intercept bool) policy.NetRule {
	r := policy.NetRule{Host: t.Host, Scheme: t.Scheme, Allow: true, Listen: t.Listen}
	if t.Addr.IsValid() {
		r.Host = t.Dest().String()
	}
	if t.Protocol == "udp" {
		r.Protocol = "udp"
	}
	if t.Scheme == "" || t.Port != netname.DefaultPort(t.Scheme) {
		r.Port = int(t.Port)
	}
	narrowToRequest(&r, t, intercept)
	return r
}

// maxListed bounds what of a program's table is suggested again, with each denial: the policy's author chose how long that is.
const maxListed = 16 << 10

// long reports whether a table is longer, without reading more of it.
func isLong(r *policy.CommandRule) bool {
	n := 0
	long := func(words []string) bool {
		n++
		return n > maxListed || slices.ContainsFunc(words, func(w string) bool {
			n += len(w) + len(`"", `)
			return n > maxListed
		})
	}
	return long(r.Envs) || slices.ContainsFunc(r.Args, long)
}

// narrow limits a rule to the request, where requests can be read.
func narrowToRequest(r *policy.NetRule, t *netname.Target, intercept bool) {
	switch {
	case t.Scheme == "http", t.Scheme == "ws", intercept && (t.Scheme == "https" || t.Scheme == "wss"):
	default:
		return
	}
	if t.Method != "" {
		r.Methods = []string{t.Method}
	}
	for _, s := range t.Path {
		r.PathPrefix += "/" + url.PathEscape(s)
	}
}

// suggestCommand is the whole table, as TOML has one for each program: it lists it, with the arguments where they are known.
func suggestCommand(v policy.Verdict, l *policy.Layer, a *asked) (r policy.CommandRule, ok bool) {
	known, file := len(a.Argv) > 0, a.program
	switch {
	case a.program == "":
		return r, false
	case v.Reason == policy.CommandNotListed:
		r = policy.CommandRule{Name: a.program, HasArgs: known}
		answers := func() bool {
			return (&policy.CompiledCommand{CommandRule: r, Program: a.program}).AcceptsName(a.Argv[0])
		}
		if known && (path.Base(a.program) == a.Argv[0] || !answers() && policy.IsProgramName(a.Argv[0])) {
			r.Name = a.Argv[0]
		}
		if known && !answers() {
			return r, false
		}
	case v.Reason == policy.ArgsNotListed && known && l.Commands.Rule(a.program, a.Argv[0]) != nil: // nil: it was renamed since
		c := l.Commands.Rule(a.program, a.Argv[0]).Command
		r, file = c.CommandRule, c.File
		if isLong(&r) || !c.AcceptsName(a.Argv[0]) {
			return r, false
		}
		r.Args = slices.Clone(r.Args)
	default:
		return r, false
	}
	if known {
		r.Args = append(r.Args, a.Argv[1:])
	}
	r.Match, r.NotMatch = nil, nil
	r.Name = unused(l.Commands, r.Name, cmp.Or(file, a.program))
	return r, r.Name != "" && (!known || !slices.Contains(a.Argv[1:], policy.ArgsRest)) // that would be any
}

// unused is a name for a program that is no table's yet: TOML has no table twice, and a rule that comes later decides before those of other
// names for the same file. "" when there's none.
func unused(t *policy.CommandTable, name, file string) string {
	for _, n := range []string{name, file, path.Dir(file) + "/./" + path.Base(file)} {
		called := path.Base(n) == path.Base(name)
		if called && !slices.ContainsFunc(t.Rules(), func(r *policy.Rule) bool { return r.Command.Name == n }) {
			return n
		}
	}
	return ""
}
