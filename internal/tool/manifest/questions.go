package manifest

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// question is a question, and what asks it again: a line of check --batch.
type question struct {
	explain.Question
	action, target string
}

// candidates returns the questions about one resource at which the answer of two policies can change.
func candidates(old, new *policy.Compiled, r policy.Resource) []question {
	switch r {
	case policy.Net:
		return netQuestions(old, new)
	case policy.Env:
		return envQuestions(old, new)
	}
	return commandQuestions(old, new)
}

// eachRule calls f for the rules of one resource of both policies.
func eachRule(old, new *policy.Compiled, r policy.Resource, f func(*policy.Rule)) {
	for _, c := range []*policy.Compiled{old, new} {
		for _, x := range c.Rules {
			if x.Resource == r && x.Authority != policy.Builtin {
				f(x)
			}
		}
	}
}

// words is a list without duplicates, in order.
type words struct {
	list []string
	has  map[string]bool
}

func (w *words) add(s ...string) {
	if w.has == nil {
		w.has = map[string]bool{}
	}
	for _, s := range s {
		if !w.has[s] {
			w.has[s] = true
			w.list = append(w.list, s)
		}
	}
}

// envLetters are those of the names of variables.
const envLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// variables returns each exact name of rules about variables, and for each prefix, and for none, a name that no longer prefix matches.
func variables(old, new *policy.Compiled) []string {
	var all words
	var taken names
	all.add("*")
	eachRule(old, new, policy.Env, func(r *policy.Rule) { all.add(r.Env.Name) })
	eachRule(old, new, policy.Commands, func(r *policy.Rule) { all.add(r.Command.Envs...) })
	for _, n := range all.list {
		taken.add(n)
	}
	out := words{}
	for _, n := range all.list {
		if n == "*" {
			out.add(taken.example(n, "TOOLGUARD_EXAMPLE", envLetters))
		} else if strings.Contains(n, "*") {
			out.add(taken.example(n, "EXAMPLE", envLetters))
		} else {
			out.add(n, taken.example(n+"*", "_EXAMPLE", envLetters))
		}
	}
	return out.list
}

func envQuestions(old, new *policy.Compiled) (all []question) {
	for _, n := range variables(old, new) {
		all = append(all, question{explain.Question{Resource: policy.Env, Target: n}, "read", n})
	}
	return all
}

// programs are those of which one stands for the programs without a rule, if there is one that has none.
var programs = []string{"true", "false", "id", "ls", "cat", "env", "sleep", "uname", "date", "wc", "sort", "head", "tail", "grep", "sed", "find", "mkdir", "rm", "cp", "mv"}

// letters are those of programs, words of command lines, hosts and paths.
const letters = "abcdefghijklmnopqrstuvwxyz0123456789"

// commandQuestions: each program with each list of arguments, and with more of them.
func commandQuestions(old, new *policy.Compiled) (all []question) {
	seen := map[string]bool{}
	add := func(argv ...string) {
		if k := strings.Join(argv, "\x00"); !seen[k] {
			seen[k] = true
			all = append(all, question{explain.Question{Resource: policy.Commands, Argv: argv}, "run", ""})
		}
	}
	var named, used names
	eachRule(old, new, policy.Commands, func(r *policy.Rule) {
		named.add(r.Command.Name)
		for _, x := range r.Command.Args {
			for _, word := range x {
				used.add(word)
			}
		}
	})
	other := used.example("*", "toolguard-example", letters)
	eachRule(old, new, policy.Commands, func(r *policy.Rule) {
		add(r.Command.Name)
		add(r.Command.Name, other)
	})
	eachRule(old, new, policy.Commands, func(r *policy.Rule) {
		for _, x := range r.Command.Args {
			args := slices.Clone(x)
			if n := len(args) - 1; n >= 0 && args[n] == policy.ArgsRest {
				args = args[:n]
			}
			add(append([]string{r.Command.Name}, args...)...)
			add(append(append([]string{r.Command.Name}, args...), other)...)
			for _, called := range r.Command.Called() { // by another name of the same file
				add(append([]string{called}, args...)...)
			}
		}
	})
	free := slices.DeleteFunc(slices.Clone(programs), func(p string) bool { return named.exact[p] })
	add(append(free, named.example("*", "toolguard-example", letters))[0])
	return all
}

// netQuestions: each host, port, path and method that a rule names, and one that none names, by every scheme.
func netQuestions(old, new *policy.Compiled) (all []question) {
	var hosts, ports, paths, methods, listens words
	var taken, parts, verbs names
	used := map[int]bool{}
	var ranges []netip.Prefix
	eachRule(old, new, policy.Net, func(r *policy.Rule) {
		n := r.Net
		if n.Suffix != "" {
			taken.add("*." + n.Suffix)
		}
		taken.add(n.Name)
		ranges = append(ranges, n.Prefixes()...)
		used[n.Port] = true
		for part := range strings.SplitSeq(n.PathPrefix, "/") {
			parts.add(part)
		}
		for _, m := range n.Methods {
			verbs.add(m)
		}
	})
	hosts.add("host.example.invalid", taken.example("*.*", "example", letters), "localhost")
	for _, a := range []string{"127.0.0.1", "10.255.254.253", "203.0.113.7", "2001:db8::7"} {
		hosts.add(hostOf(a), hostOf(outside(netip.MustParseAddr(a), ranges).String()))
	}
	port := 4711
	for used[port] {
		port++
	}
	ports.add("0", strconv.Itoa(port))
	paths.add("")
	methods.add("")
	eachRule(old, new, policy.Net, func(r *policy.Rule) {
		n := r.Net
		switch {
		case n.Suffix != "":
			hosts.add(taken.example("*."+n.Suffix, "x", letters), taken.example("example.*."+n.Suffix, "y", letters), n.Suffix)
		case n.Name != "":
			hosts.add(n.Name, taken.example("*."+n.Name, "example", letters))
		}
		for _, p := range n.Prefixes() {
			a := p.Addr()
			for range 3 { // the first ones, of which shorter ranges and single addresses may have rules
				hosts.add(hostOf(a.String()))
				if a = a.Next(); !a.IsValid() || !p.Contains(a) {
					break
				}
			}
			hosts.add(hostOf(lastOf(p).String()))
			longer := slices.DeleteFunc(slices.Clone(ranges), func(q netip.Prefix) bool { return q.Bits() <= p.Bits() })
			if a := outside(p.Addr(), longer); p.Contains(a) {
				hosts.add(hostOf(a.String()))
			}
		}
		ports.add(strconv.Itoa(n.Port))
		if n.PathPrefix != "" {
			p := "/" + strings.Trim(n.PathPrefix, "/")
			paths.add(p, p+"/"+parts.example("*", "example", letters), parts.example(p+"*", "-example", letters))
		}
		methods.add(n.Methods...)
		if n.Listen {
			listens.add(cmp.Or(strings.Split(hostOf(n.Host), "/")[0], "0.0.0.0"))
		}
	})
	if len(methods.list) > 1 {
		methods.add(verbs.example("*", "TRACE", envLetters[:26]))
	}
	if len(paths.list) > 1 {
		paths.add("/" + parts.example("*", "example", letters))
	}
	for _, h := range hosts.list {
		for _, p := range ports.list {
			all = append(all, connects(h, p, paths.list, methods.list)...)
		}
	}
	listens.add("127.0.0.1", "0.0.0.0", "[::1]")
	for _, h := range listens.list {
		for _, p := range ports.list {
			if p != "0" {
				all = append(all, netQuestion("listen", "tcp://"+h+":"+p), netQuestion("listen", "udp://"+h+":"+p))
			}
		}
	}
	return all
}

// connects returns the questions about one host and port.
func connects(host, port string, paths, methods []string) (all []question) {
	if port != "0" {
		all = append(all, netQuestion("connect", "tcp://"+host+":"+port), netQuestion("connect", "udp://"+host+":"+port))
	}
	at := host
	if port != "0" {
		at += ":" + port
	}
	for _, scheme := range netname.Schemes() {
		for _, p := range paths {
			for _, m := range methods {
				if m == "" || strings.HasPrefix(scheme, "http") {
					all = append(all, netQuestion(cmp.Or(m, "connect"), scheme+"://"+at+p))
				}
			}
		}
	}
	return all
}

func netQuestion(action, target string) question {
	q := explain.Question{Resource: policy.Net, Target: target, Listen: action == "listen"}
	if action != "connect" && action != "listen" {
		q.Method = action
	}
	return question{q, action, target}
}

// hostOf returns an address as a URL has it.
func hostOf(a string) string {
	if strings.Contains(a, ":") && !strings.HasPrefix(a, "[") {
		return "[" + a + "]"
	}
	return a
}

// lastOf returns the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// outside returns the first address from one on that is in none of the ranges of its family; without one, the address.
func outside(from netip.Addr, ranges []netip.Prefix) netip.Addr {
	a := from
	for range len(ranges) + 1 {
		i := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
		if i < 0 {
			return a
		}
		if a = lastOf(ranges[i]).Next(); !a.IsValid() {
			break
		}
	}
	return from
}
