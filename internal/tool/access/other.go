package access

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// anyHost, in place of a host, is every host. The reference has no such rule.
const anyHost = "*"

// hosts are the rules of all authorities about connections over TCP. Each entry is decided by all of them: an entry that any authority denies is
// denied, and where several authorities have rules about one host, there is an entry for each combination of two of these.
func hosts(c *policy.Compiled) []Net {
	list, declared := []Net{}, false
	for _, l := range c.Layers {
		if l.Defaults[policy.Net] == policy.Undeclared {
			continue
		}
		declared = true
		before := len(list)
		for _, r := range l.Net.Rules() {
			if n := r.Net; !n.Listen && n.Proto != "udp" {
				own := Net{Host: n.Host, Scheme: n.Scheme, Port: n.Port, PathPrefix: n.PathPrefix}
				list = addNet(list, own)
				for _, other := range list[:before] {
					if both, ok := combined(other, own); ok {
						list = addNet(list, both)
					}
				}
			}
		}
	}
	if !declared || len(c.Layers) > 0 && allowsNet(c) {
		list = addNet(list, Net{Host: anyHost})
	}
	for i := range list {
		list[i].Allow = list[i].Host == anyHost || allowed(c, &list[i])
	}
	slices.SortStableFunc(list, func(a, b Net) int { // of two equally specific ones, the last decides
		return cmp.Compare(rank(a.Allow), rank(b.Allow))
	})
	return list
}

func rank(allow bool) int {
	if allow {
		return 0
	}
	return 1
}

func addNet(list []Net, n Net) []Net {
	if slices.Contains(list, n) {
		return list
	}
	return append(list, n)
}

// combined is what matches both rules; ok is false if nothing can.
func combined(a, b Net) (_ Net, ok bool) {
	join := func(x, y string) (string, bool) { return cmp.Or(x, y), x == "" || y == "" || x == y }
	var same [2]bool
	out := Net{Host: a.Host, Port: cmp.Or(a.Port, b.Port)}
	out.Scheme, same[0] = join(a.Scheme, b.Scheme)
	out.PathPrefix, same[1] = a.PathPrefix, true
	switch longer := strings.TrimSuffix(b.PathPrefix, "/") + "/"; {
	case strings.HasPrefix(longer, strings.TrimSuffix(a.PathPrefix, "/")+"/"):
		out.PathPrefix = b.PathPrefix
	case !strings.HasPrefix(a.PathPrefix+"/", longer):
		same[1] = false
	}
	return out, a.Host == b.Host && same[0] && same[1] && (a.Port == 0 || b.Port == 0 || a.Port == b.Port)
}

// allowsNet reports whether every authority allows hosts for which it has no rule.
func allowsNet(c *policy.Compiled) bool {
	return !slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return l.Defaults[policy.Net] == policy.Deny })
}

// allowed reports whether a connection to what a rule names is allowed. A range of addresses and names beneath a host are decided by one of them.
func allowed(c *policy.Compiled, n *Net) bool {
	host := n.Host
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		host = "any-name." + rest
	}
	host, _, _ = strings.Cut(host, "/")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	scheme := cmp.Or(n.Scheme, "https")
	t, err := netname.ParseTarget(scheme + "://" + host + n.PathPrefix)
	if err != nil {
		return false
	}
	if n.Port != 0 {
		t.Port = uint16(n.Port)
		if n.Scheme == "" && n.PathPrefix == "" {
			t.Scheme = ""
		}
	}
	return c.CheckNet(&t).Allow
}

// variables are the rules of all authorities about variables, each decided by all of them.
func variables(c *policy.Compiled) []Env {
	all := map[string]bool{}
	for _, l := range c.Layers {
		if l.Defaults[policy.Env] != policy.Undeclared {
			for _, r := range l.Env.Rules() {
				all[r.Env.Name] = true
			}
		}
	}
	if !slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return l.Defaults[policy.Env] == policy.Deny }) {
		all["*"] = true
	}
	list := []Env{}
	for name := range all {
		target := name
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			target = prefix + "\x01" // is no other rule's
		}
		list = append(list, Env{name, c.CheckEnv(target).Allow})
	}
	slices.SortFunc(list, func(a, b Env) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// commands are the programs that all authorities grant. Programs that aren't there match nothing, and are left out.
func commands(c *policy.Compiled) map[string]Command {
	out, declared := map[string]Command{}, false
	for _, l := range c.Layers {
		if l.Defaults[policy.Commands] == policy.Undeclared || l.Defaults[policy.Commands] == policy.Allow {
			continue
		}
		granted := map[string]Command{} // by program
		for _, r := range l.Commands.Rules() {
			if p := r.Command.Program; p != "" {
				granted[p] = Command{append(granted[p].Args, argsOf(r.Command)...)}
			}
		}
		if declared {
			for p, own := range granted {
				if before, ok := out[p]; ok {
					granted[p] = Command{meet(before.Args, own.Args)}
				} else {
					delete(granted, p)
				}
			}
		}
		out, declared = granted, true
	}
	if !declared {
		return map[string]Command{"*": {[][]string{{policy.ArgsRest}}}}
	}
	return named(c, out)
}

// named are programs under the names that the rules have for them.
func named(c *policy.Compiled, programs map[string]Command) map[string]Command {
	out := map[string]Command{}
	for _, r := range c.Rules {
		if x := r.Command; x != nil {
			if of, ok := programs[x.Program]; ok {
				out[x.Name] = of
			}
		}
	}
	return out
}

func argsOf(r *policy.CompiledCommand) [][]string {
	if r.AnyArgs() {
		return [][]string{{policy.ArgsRest}}
	}
	return append([][]string{}, r.Args...)
}

// meet are the argument lists that both accept.
func meet(a, b [][]string) [][]string {
	out := [][]string{}
	for _, x := range a {
		for _, y := range b {
			if both, ok := meetOne(x, y); ok {
				out = append(out, both)
			}
		}
	}
	return out
}

func meetOne(x, y []string) ([]string, bool) {
	cut := func(args []string) ([]string, bool) {
		if n := len(args); n > 0 && args[n-1] == policy.ArgsRest {
			return args[:n-1], true
		}
		return args, false
	}
	a, openA := cut(x)
	b, openB := cut(y)
	switch {
	case len(a) > len(b):
		return meetOne(y, x)
	case !slices.Equal(a, b[:len(a)]) || len(a) < len(b) && !openA:
		return nil, false
	case len(a) == len(b) && !openB:
		return y, true
	case len(a) == len(b) && !openA:
		return x, true
	}
	return y, true
}
