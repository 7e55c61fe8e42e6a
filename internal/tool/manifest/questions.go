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

// envQuestions: each exact name, and for each prefix a name that no longer prefix matches.
func envQuestions(old, new *policy.Compiled) (all []question) {
	var names words
	names.add("TOOLGUARD_EXAMPLE")
	eachRule(old, new, policy.Env, func(r *policy.Rule) {
		if p, ok := strings.CutSuffix(r.Env.Name, "*"); ok {
			names.add(p+"EXAMPLE0", p+"Z9")
		} else {
			names.add(r.Env.Name, r.Env.Name+"_EXAMPLE")
		}
	})
	for _, n := range names.list {
		all = append(all, question{explain.Question{Resource: policy.Env, Target: n}, "read", n})
	}
	return all
}

// programs are those of which one stands for the programs without a rule.
var programs = []string{"true", "false", "id", "ls", "cat", "env", "sleep", "uname"}

// commandQuestions: each program with each list of arguments, and with more of them.
func commandQuestions(old, new *policy.Compiled) (all []question) {
	seen := map[string]bool{}
	add := func(argv ...string) {
		if k := strings.Join(argv, "\x00"); !seen[k] {
			seen[k] = true
			all = append(all, question{explain.Question{Resource: policy.Commands, Argv: argv}, "run", ""})
		}
	}
	named := map[string]bool{}
	eachRule(old, new, policy.Commands, func(r *policy.Rule) {
		n := r.Command.Name
		named[n] = true
		add(n)
		add(n, "toolguard-example")
	})
	eachRule(old, new, policy.Commands, func(r *policy.Rule) {
		for _, x := range r.Command.Args {
			args := slices.Clone(x)
			if n := len(args) - 1; n >= 0 && args[n] == policy.ArgsRest {
				args = args[:n]
			}
			add(append([]string{r.Command.Name}, args...)...)
			add(append(append([]string{r.Command.Name}, args...), "toolguard-example")...)
			for _, called := range r.Command.Called() { // by another name of the same file
				add(append([]string{called}, args...)...)
			}
		}
	})
	for _, p := range programs {
		if !named[p] {
			add(p)
			break
		}
	}
	return all
}

// netQuestions: each host, port, path and method that a rule names, and one that none names, by every scheme.
func netQuestions(old, new *policy.Compiled) (all []question) {
	var hosts, ports, paths, methods, listens words
	hosts.add("host.example.invalid", "localhost", "127.0.0.1", "10.255.254.253", "203.0.113.7", "[2001:db8::7]")
	ports.add("0", "4711")
	paths.add("")
	methods.add("")
	eachRule(old, new, policy.Net, func(r *policy.Rule) {
		n := r.Net
		switch {
		case n.Suffix != "":
			hosts.add("x."+n.Suffix, "example.y."+n.Suffix, n.Suffix)
		case n.Name != "":
			hosts.add(n.Name, "example."+n.Name)
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
		}
		ports.add(strconv.Itoa(n.Port))
		if n.PathPrefix != "" {
			p := "/" + strings.Trim(n.PathPrefix, "/")
			paths.add(p, p+"/example", p+"-example")
		}
		methods.add(n.Methods...)
		if n.Listen {
			listens.add(cmp.Or(strings.Split(hostOf(n.Host), "/")[0], "0.0.0.0"))
		}
	})
	if len(methods.list) > 1 {
		methods.add("TRACE")
	}
	if len(paths.list) > 1 {
		paths.add("/example")
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
