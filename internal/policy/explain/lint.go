package explain

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Lint finds probable mistakes in a valid policy, except in built-in files. public reports
// whether anyone can register names beneath a domain; it's a parameter because its list is large.
func Lint(c *policy.Compiled, sys fspath.FileSystem, public func(domain string) bool) []Warning {
	l := linter{c: c, sys: sys, public: public}
	for _, layer := range c.Layers {
		if layer.Authority == policy.Builtin {
			continue
		}
		l.layer = layer
		l.fs()
		l.net()
		l.env()
		l.commands()
		l.syscalls()
		l.degraded()
	}
	for _, k := range c.ToolKeys {
		if !k.OnCalls() {
			l.warn(k.Position, "not-enforced", "exec doesn't start unless --allow-degraded="+k.ID+" is given", "exec doesn't enforce %s", k.ID)
		}
		if strings.TrimPrefix(k.ID, "host.") == "gate.exclude" {
			l.warn(k.Position, "not-judged", "give single arguments the role \"text\" instead",
				"%s: the gate judges nothing in the arguments of these tools, neither files nor commands", k.ID)
		}
	}
	slices.SortStableFunc(l.out, func(a, b Warning) int {
		if a.Position.File != b.Position.File {
			return 0
		}
		return a.Position.Line - b.Position.Line
	})
	return l.out
}

type linter struct {
	c      *policy.Compiled
	sys    fspath.FileSystem
	public func(domain string) bool
	layer  *policy.Layer
	out    []Warning
}

func (l *linter) warn(p policy.Position, code, hint, format string, args ...any) {
	l.out = append(l.out, Warning{Position: p, Code: code, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// warnRule warns about a rule of a policy file.
func (l *linter) warnRule(r *policy.Rule, code, hint, format string, args ...any) {
	if !r.Builtin() {
		l.warn(r.Position, code, hint, r.ID+": "+format, args...)
	}
}

func (l *linter) fs() {
	t := l.layer.FS
	for i, r := range t.Rules() {
		l.fsPath(r)
		l.takenAway(r)
		for _, later := range t.Rules()[i+1:] {
			if beats(later, r) {
				l.warnRule(r, "never-wins", "remove it, or move it after "+later.ID, "it never wins: %s (%s) matches wherever it does and comes later", later.ID, later.Position)
				break
			}
		}
	}
	for _, dir := range strings.Split(l.c.Path, ":") {
		l.pathDir(dir)
	}
}

// beats reports whether a later rule decides wherever an earlier one could.
func beats(later, earlier *policy.Rule) bool {
	a, b := later.FS, earlier.FS
	if a.Last != b.Last || !slices.Equal(a.Names, b.Names) {
		return false
	}
	if a.Last == "" {
		return a.Path == b.Path
	}
	return fspath.Within(b.Path, a.Path)
}

func (l *linter) fsPath(r *policy.Rule) {
	f := r.FS
	if f.Last == "" && strings.ContainsAny(f.Written, "*?") {
		l.warnRule(r, "literal-star", "a pattern goes into match", "path %q is literal: its * or ? is only a character", f.Written)
	}
	if slices.Contains(strings.Split(f.Written, "/"), "..") {
		l.warnRule(r, "dotdot", fmt.Sprintf("write %q", relative(l.c, f.Path)), "%q has a \"..\" in it", f.Written)
	}
	switch why, hint := unmatched(l.c, l.sys, r); {
	case why != "":
		l.warnRule(r, "missing", hint, "%s", why)
	case f.Missing && f.Last == "" && f.Caps != 0:
		l.warnRule(r, "missing", "", "%s doesn't exist", f.Path)
	}
	if f.Caps&(policy.Create|policy.Update) != 0 && f.Caps&policy.Execute != 0 {
		l.warnRule(r, "write-execute", "grant execute on the built files, and write on the sources",
			"%s may be written and executed: whatever is written there can be run", fsWhat(f))
	}
	if f.Unprotect && l.layer.Protect == nil {
		l.warnRule(r, "unprotect", "", "unprotect has no effect: protect is off")
	}
	switch {
	case f.Secret && l.layer.Secrets == nil:
		l.warnRule(r, "secret", "", "secret has no effect: secrets is off")
	case !f.Secret && f.Last == "" && f.Caps&policy.Read != 0 && l.layer.Secret(f.Path):
		l.warnRule(r, "secret", "add secret = true, if that is intended", "credentials are kept in %s: without secret = true it isn't readable", f.Path)
	}
}

func fsWhat(f *policy.CompiledFS) string {
	if f.Last != "" {
		return f.Written
	}
	return f.Path
}

// pathDir warns when the session may change a folder that programs are looked up in.
func (l *linter) pathDir(dir string) {
	got, err := fspath.NewResolver(l.sys).Resolve(path.Clean("/"+dir), true)
	if !strings.HasPrefix(dir, "/") || err != nil || got.Missing {
		return
	}
	r := l.layer.FS.Deciding(got.Path)
	if r != nil && r.FS.Caps&(policy.Create|policy.Update) != 0 && l.c.Caps(got.Path)&(policy.Create|policy.Update) != 0 {
		l.warnRule(r, "writable-path", "take the folder out of PATH, or out of what may be written",
			"%s is in PATH and may be written: a program put there runs in place of another", got.Path)
	}
}

func (l *linter) net() {
	rules := l.layer.Net.Rules()
	for i, r := range rules {
		if s := r.Net.Suffix; s != "" && r.Net.Allow && l.public(s) {
			l.warnRule(r, "public-suffix", "name the hosts, or a domain of one owner", "*.%s covers names that anyone can register", s)
		}
		if r.Net.Scheme == "wss" && !l.layer.Net.ReadsTLS {
			l.wss(r)
		}
		if l.layer.Defaults[policy.Net] == policy.Allow && !r.Net.Allow && len(r.Net.Prefixes()) == 0 {
			l.deniedName(r)
		}
		if p := r.Net.Prefix; p.IsValid() && p.Bits() == 0 && r.Net.Allow {
			l.warnRule(r, "every-address", "", "%s is every address, private ones and metadata services included", r.Net.Host)
		}
		if p := r.Net.Prefix; p.IsSingleIP() && p.Addr().IsUnspecified() && !r.Net.Listen {
			l.warnRule(r, "no-address", `write "localhost"`, "%s is no address to connect to, so it matches nothing: a connection to it reaches the machine itself", r.Net.Host)
		}
		for _, o := range rules {
			if r.Net.EveryPort() && outweighs(o.Net, r.Net) {
				l.warnRule(r, "outweighed", "deny the port or scheme too", "%s (%s) grants a part of it: the rule that names more of port and scheme wins, however wide its range", o.ID, o.Position)
			}
		}
		for _, later := range rules[i+1:] {
			if sameNet(r.Net, later.Net) {
				l.warnRule(r, "never-wins", "remove it", "it never wins: %s (%s) matches the same and comes later", later.ID, later.Position)
				break
			}
		}
	}
}

// deniedName warns of a denial of a name, which is enforced only where the name is visible, on the rule's ports.
func (l *linter) deniedName(r *policy.Rule) {
	ports := "the default ports of its schemes"
	if r.Net.Port != 0 {
		ports = fmt.Sprintf("port %d", r.Net.Port)
	}
	l.warnRule(r, "denied-name", `deny its addresses too, which then are denied on every port, or write default = { net = "deny" } and grant the needed hosts`,
		`where default allows, %s stays reachable on other ports than %s, and by its addresses`, r.Net.Host, ports)
}

// wss warns of a rule for a scheme that can't be distinguished from https.
func (l *linter) wss(r *policy.Rule) {
	const hint = `set "tls_intercept = true" in [access], or write scheme = "https"`
	t := netname.Target{Scheme: "https", Protocol: "tcp", Port: uint16(r.Net.Port), Host: r.Net.Name, Addr: r.Net.Prefix.Addr()}
	if t.Port == 0 {
		t.Port = netname.DefaultPort("https")
	}
	if t.Host == "" && r.Net.Suffix != "" {
		t.Host = "x." + r.Net.Suffix
	}
	if d := l.layer.Net.Find(&t); d != nil && d != r && d.Net.Scheme == "https" {
		l.warnRule(r, "wss-is-https", hint, "without tls_intercept a WebSocket can't be distinguished from other requests, so %s (%s), which names https, decides, and this rule nothing", d.ID, d.Position)
		return
	}
	l.warnRule(r, "wss-is-https", hint, "without tls_intercept a WebSocket can't be distinguished from other requests, so this is about https as well")
}

// outweighs reports whether a rule grants something to a whole range that a less specific rule denies.
func outweighs(n *policy.CompiledNet, denial *policy.CompiledNet) bool {
	all := func(p netip.Prefix) bool { return n.Prefix.Bits() <= p.Bits() && n.Prefix.Contains(p.Addr()) }
	return n.Allow && !n.Listen && n.Parts() > 0 && !policy.IsOpaque(n.Scheme) && (denial.Proto == "" || denial.Proto == n.Proto) &&
		slices.ContainsFunc(denial.Prefixes(), all)
}

// sameNet reports whether two rules match exactly the same targets.
func sameNet(a, b *policy.CompiledNet) bool {
	return a.Name == b.Name && a.Suffix == b.Suffix && a.Prefix == b.Prefix && a.Scheme == b.Scheme && a.Port == b.Port && a.Proto == b.Proto &&
		a.Listen == b.Listen && slices.Equal(a.Path, b.Path) && slices.Equal(slices.Sorted(slices.Values(a.Methods)), slices.Sorted(slices.Values(b.Methods))) &&
		a.EveryPort() == b.EveryPort() && (a.Allow == b.Allow || !a.DependsOnContent() && a.Scheme == "") // else the matched targets depend on allow
}

func (l *linter) env() {
	rules := l.layer.Env.Rules()
	for i, r := range rules {
		for _, later := range rules[i+1:] {
			if later.Env.Name == r.Env.Name {
				l.warnRule(r, "never-wins", "remove it", "it never wins: %s (%s) has the same name and comes later", later.ID, later.Position)
				break
			}
		}
		if r.Env.Read && (r.Env.Name == "LD_PRELOAD" || r.Env.Name == "LD_LIBRARY_PATH" || r.Env.Name == "LD_*") {
			l.warnRule(r, "loader-env", "", "%s lets the command put code into every program of the session", r.Env.Name)
		}
	}
}

// multicall are programs whose name selects their function.
var multicall = []string{"busybox", "toybox", "coreutils", "sbase-box"}

func (l *linter) commands() {
	t := l.layer.Commands
	for _, r := range t.Rules() {
		c := r.Command
		switch {
		case c.Program == "":
			why, hint := unmatched(l.c, l.sys, r)
			l.warnRule(r, "missing", hint, "%s", why)
		case !t.Decides(r):
			winner := t.Rule(c.Program, c.Name)
			l.warnRule(r, "never-wins", "put both into one rule", "it never wins: %s (%s) is for the same program, %s", winner.ID, winner.Position, c.Program)
		case c.AnyArgs() && slices.Contains(multicall, path.Base(c.Program)) && path.Base(c.Name) != path.Base(c.Program):
			l.warnRule(r, "multicall", "", "%q is %s, which runs every other command under its name too", c.Name, c.Program)
		}
		if c.HasArgs && len(c.Args) == 0 {
			l.warnRule(r, "no-args", "[] as an element allows no arguments; leave args out for any", "args is empty, so the program can never be run")
		}
		if c.Program != "" && l.c.Caps(c.Program)&policy.Execute == 0 {
			l.warnRule(r, "not-executable", "add a rule for fs with execute", "%s may be run by commands but not executed by fs", c.Program)
		}
	}
}

// degraded warns about names that no rule has.
// syscalls warns of system calls that only Landlock's backend denies, as Landlock doesn't mediate file attributes.
func (l *linter) syscalls() {
	s := l.layer.Syscalls
	for _, name := range s.Allow {
		if strings.Contains(name, "setxattr") {
			l.warn(s.Position, "xattr", "leave it out: the bpf backend mediates file attributes, and allows setting them where files may be written",
				"%s allows a command under landlock to make a setgid program executable for other users, by an access control list", name)
		}
	}
}

func (l *linter) degraded() {
	for _, d := range l.layer.Degraded {
		known := slices.ContainsFunc(l.c.Rules, func(r *policy.Rule) bool { return r.ID == d.ID }) || strings.HasPrefix(d.ID, "limits.") || d.ID == policy.AuditID && l.c.Audit.Exec ||
			slices.ContainsFunc(l.c.ToolKeys, func(k policy.Key) bool { return k.ID == d.ID })
		if !known {
			l.warn(d.Position, "unknown-rule", "toolguard policy show prints every rule with its id", "allow_degraded names %q, which is no rule of this policy", d.ID)
		}
	}
}
