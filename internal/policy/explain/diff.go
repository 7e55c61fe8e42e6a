package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Diff returns the differences in meaning between two policies, whatever their text is. It asks both about every target at
// which a decision can change: the path of each literal rule, a path for each pattern beneath each of those, and the
// same for the other resources. Between those points no decision changes.
func Diff(a, b *policy.Compiled) []Change {
	d := differ{a: a, b: b}
	d.fs()
	d.net()
	d.env()
	d.commands()
	d.limits()
	d.audit()
	d.access()
	return d.out
}

type differ struct {
	a, b *policy.Compiled
	out  []Change
}

func (d *differ) rules(res policy.Resource, f func(*policy.Rule)) {
	for _, c := range []*policy.Compiled{d.a, d.b} {
		for _, r := range c.Rules {
			if r.Resource == res && r.Authority != policy.Builtin {
				f(r)
			}
		}
	}
}

func rule(c *policy.Compiled, v policy.Verdict) *policy.Rule {
	if v.Rule < 0 {
		return nil
	}
	return c.Rules[v.Rule]
}

func (d *differ) fs() {
	seen := map[string]bool{"/": true, d.a.Workspace: true}
	var patterns []*policy.Rule
	d.rules(policy.FS, func(r *policy.Rule) {
		seen[r.FS.Path] = true
		if r.FS.Last != "" {
			patterns = append(patterns, r)
		}
	})
	for _, p := range slices.Sorted(maps.Keys(seen)) {
		for _, r := range patterns {
			if fspath.Within(p, r.FS.Path) {
				seen[path.Join(p, witness(r))] = true
			}
		}
	}
	reported := map[string][2]policy.Caps{}
	for _, p := range slices.Sorted(maps.Keys(seen)) { // an ancestor sorts before its descendants
		now := [2]policy.Caps{d.a.Caps(p), d.b.Caps(p)}
		above := nearest(reported, p)
		reported[p] = now
		if now[0] == now[1] || above != "" && (reported[above] == now || d.onlyRestricts(above, reported[above], p, now)) {
			continue
		}
		d.out = append(d.out, Change{
			Resource: "fs", Target: p, Old: now[0].String(), New: now[1].String(),
			Widened: now[1]&^now[0] != 0, Narrowed: now[0]&^now[1] != 0,
			OldRule: decidingRule(d.a, p), NewRule: decidingRule(d.b, p),
		})
	}
}

// witness returns a path beneath its BASE that a pattern matches.
func witness(r *policy.Rule) string {
	last := strings.Replace(r.FS.Last, "*", "example", 1)
	return path.Join(append([]string{last}, r.FS.Names...)...)
}

// nearest returns the nearest reported path above, "" when there is none.
func nearest(reported map[string][2]policy.Caps, p string) string {
	for p != "/" {
		p = path.Dir(p)
		if _, ok := reported[p]; ok {
			return p
		}
	}
	return ""
}

// onlyRestricts reports whether the change at p is the change above without the capabilities that protect and secrets deny: then the
// change above is enough.
func (d *differ) onlyRestricts(above string, was [2]policy.Caps, p string, now [2]policy.Caps) bool {
	removed := was[0]&^now[0] | was[1]&^now[1]
	return was[0] != was[1] && was[0]&^removed == now[0] && was[1]&^removed == now[1] &&
		sameRules(d.a, above, p) && sameRules(d.b, above, p)
}

// sameRules reports whether the same rule of each layer decides on two paths.
func sameRules(c *policy.Compiled, p, q string) bool {
	return !slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return l.FS.Deciding(p) != l.FS.Deciding(q) })
}

// decidingRule returns the rule of the last layer that has one for a path.
func decidingRule(c *policy.Compiled, p string) *policy.Rule {
	for _, l := range slices.Backward(c.Layers) {
		if r := l.FS.Deciding(p); r != nil {
			return r
		}
	}
	return nil
}

// decision adds a change when two verdicts differ.
func (d *differ) decision(res policy.Resource, target string, old, new policy.Verdict) {
	if old.Allow == new.Allow {
		return
	}
	word := map[bool]string{true: "allow", false: "deny"}
	d.out = append(d.out, Change{
		Resource: res.String(), Target: target, Old: word[old.Allow], New: word[new.Allow],
		Widened: new.Allow, Narrowed: old.Allow, OldRule: rule(d.a, old), NewRule: rule(d.b, new),
	})
}

// netHost is a name that rules are about, or an address that represents a range without its subranges.
type netHost struct {
	name, suffix string
	addr         netip.Addr
	within       netip.Prefix
}

func (d *differ) net() {
	targets := map[string]netname.Target{"every other host": {Scheme: "https", Host: "anything.invalid", Port: 443, Protocol: "tcp"}}
	within := map[string]netip.Prefix{}
	for _, h := range d.netHosts() {
		d.eachAbout(h, func(n *policy.CompiledNet) {
			for _, t := range netWitnesses(n) {
				t.Host, t.Addr = h.name, h.addr
				s := h.text(&t)
				targets[s], within[s] = t, h.within
			}
		})
	}
	for _, s := range slices.Sorted(maps.Keys(targets)) {
		t, old, new := targets[s], policy.Verdict{}, policy.Verdict{}
		if p := within[s]; p.IsValid() {
			old, new = d.a.CheckPrefix(&t, p), d.b.CheckPrefix(&t, p)
		} else {
			old, new = d.a.CheckNet(&t), d.b.CheckNet(&t)
		}
		d.decision(policy.Net, s, old, new)
	}
}

// netHosts returns the hosts of all rules, once each. A range that longer ones make up has no address of its own.
func (d *differ) netHosts() (all []netHost) {
	ranges, names := map[netip.Prefix]bool{}, map[netHost]bool{}
	d.rules(policy.Net, func(r *policy.Rule) {
		for _, p := range r.Net.Prefixes() {
			ranges[p] = true
		}
		switch {
		case r.Net.Suffix != "":
			names[netHost{name: "example." + r.Net.Suffix, suffix: r.Net.Suffix}] = true
		case r.Net.Name != "":
			names[netHost{name: r.Net.Name}] = true
		}
	})
	for p := range ranges {
		if a := alone(p, ranges); a.IsValid() {
			all = append(all, netHost{addr: a, within: p})
		}
	}
	return slices.AppendSeq(all, maps.Keys(names))
}

// alone returns the first address of a range that is in no longer one; invalid when there is none.
func alone(p netip.Prefix, ranges map[netip.Prefix]bool) netip.Addr {
	a := p.Addr()
next:
	for p.Contains(a) {
		for bits := p.Bits() + 1; bits <= a.BitLen(); bits++ {
			if q := netip.PrefixFrom(a, bits).Masked(); ranges[q] {
				a = last(q).Next()
				continue next
			}
		}
		return a
	}
	return netip.Addr{}
}

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// eachAbout calls f for every rule of both policies whose host matches.
func (d *differ) eachAbout(h netHost, f func(*policy.CompiledNet)) {
	for _, l := range slices.Concat(d.a.Layers, d.b.Layers) {
		rule := func(r *policy.Rule) { f(r.Net) }
		switch {
		case l.Net == nil:
		case h.within.IsValid():
			l.Net.EachContaining(h.within, rule)
		default:
			l.Net.EachHost(&netname.Target{Host: h.name}, rule)
		}
	}
}

// text describes a target that represents all similar ones.
func (h netHost) text(t *netname.Target) string {
	s := t.String()
	if h.suffix != "" {
		s = strings.Replace(s, h.name, "*."+h.suffix, 1)
	}
	if other, ok := strings.CutSuffix(s, ":0"); ok {
		s = other + ":*" // the ports that no rule names
	}
	if t.Method != "" {
		s = t.Method + " " + s
	}
	if t.Listen {
		s = "listen " + s
	}
	return s
}

// netWitnesses returns targets that a rule matches except for their host, one for each scheme and method that it could be about.
func netWitnesses(n *policy.CompiledNet) []netname.Target {
	t := netname.Target{Port: uint16(n.Port), Path: n.Path, Listen: n.Listen}
	schemes, protocols := []string{n.Scheme}, []string{n.Proto}
	if n.Proto == "" {
		protocols = []string{"tcp", "udp"}
	}
	switch {
	case n.OwnServers():
	case n.EveryPort():
		schemes = []string{"https", "http", "ssh", "git", ""}
	case n.Scheme == "" && n.Port == 0:
		schemes = []string{"https", "http", "ssh", "git"}
	case n.Scheme == "" && !n.Listen && n.Proto == "tcp":
		schemes = []string{"", "https", "http"}
	}
	methods := append([]string{""}, n.Methods...)
	var out []netname.Target
	for _, p := range protocols {
		for _, s := range schemes {
			for _, m := range methods {
				if p == "udp" && s != "" {
					continue
				}
				w := t
				w.Protocol, w.Scheme, w.Method = p, s, m
				if w.Port == 0 {
					w.Port = netname.DefaultPort(s)
				}
				out = append(out, w)
			}
		}
	}
	return out
}

func (d *differ) env() {
	names := map[string]string{"every other variable": "\x01"}
	d.rules(policy.Env, func(r *policy.Rule) { names[r.Env.Name] = strings.Replace(r.Env.Name, "*", "\x01", 1) })
	for _, s := range slices.Sorted(maps.Keys(names)) {
		d.decision(policy.Env, s, d.a.CheckEnv(names[s]), d.b.CheckEnv(names[s]))
	}
}

func (d *differ) commands() {
	type line struct {
		program string
		argv    []string
	}
	lines := map[string]line{"every other program": {program: "/\x01"}}
	d.rules(policy.Commands, func(r *policy.Rule) {
		c := r.Command
		if c.Program == "" {
			return
		}
		lines[c.Name+" with any arguments"] = line{c.Program, []string{c.Name, "\x01"}}
		lines[c.Name] = line{c.Program, []string{c.Name}}
		for _, args := range c.Args {
			argv := append([]string{c.Name}, args...)
			if n := len(argv) - 1; argv[n] == policy.ArgsRest {
				argv[n] = "\x01"
			}
			lines[strings.Join(append([]string{c.Name}, args...), " ")] = line{c.Program, argv}
		}
	})
	for _, s := range slices.Sorted(maps.Keys(lines)) {
		l := lines[s]
		d.decision(policy.Commands, s, d.a.CheckCommand(l.program, l.argv), d.b.CheckCommand(l.program, l.argv))
	}
}

func (d *differ) limits() {
	x, y := d.a.Limits, d.b.Limits
	for _, l := range []struct {
		name     string
		old, new uint64
	}{
		{"memory", x.Memory.N, y.Memory.N},
		{"pids", x.Pids.N, y.Pids.N},
		{"cpu", x.CPU.N, y.CPU.N},
		{"io", x.IO.N, y.IO.N},
		{"wall_time", uint64(x.WallTime.D), uint64(y.WallTime.D)},
		{"open_files", x.OpenFiles.N, y.OpenFiles.N},
		{"file_size", x.FileSize.N, y.FileSize.N},
	} {
		if l.old == l.new {
			continue
		}
		wider := l.new == 0 || l.old != 0 && l.new > l.old
		d.out = append(d.out, Change{Resource: "limits", Target: l.name, Old: limitText(l.name, l.old), New: limitText(l.name, l.new), Widened: wider, Narrowed: !wider})
	}
}

// audit reports a change of the recorded events, which allows or denies nothing.
func (d *differ) audit() {
	word := map[bool]string{true: "exec", false: "denials"}
	if old, new := d.a.Audit.Exec, d.b.Audit.Exec; old != new {
		d.out = append(d.out, Change{Resource: "audit", Target: "recorded events", Old: word[old], New: word[new]})
	}
}

func limitText(name string, n uint64) string {
	switch {
	case n == 0:
		return "none"
	case name == "wall_time":
		return spanText(n)
	case name == "cpu":
		return fmt.Sprintf("%d%%", n)
	case name == "io":
		return sizeText(n) + "/s"
	case name == "memory" || name == "file_size":
		return sizeText(n)
	}
	return fmt.Sprint(n)
}

// sizeText is a size as a policy has it, in the largest unit of which it is a whole number.
func sizeText(n uint64) string {
	for _, units := range []struct {
		step  uint64
		names []string
	}{{1024, []string{"", "KiB", "MiB", "GiB", "TiB"}}, {1000, []string{"", "kB", "MB", "GB", "TB"}}} {
		m, i := n, 0
		for ; m%units.step == 0 && i+1 < len(units.names); i++ {
			m /= units.step
		}
		if i > 0 {
			return fmt.Sprint(m) + units.names[i]
		}
	}
	return fmt.Sprint(n)
}
