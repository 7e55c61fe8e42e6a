package explain

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/envname"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// asked is a question with its parsed target.
type asked struct {
	Question
	target  string // as decided on
	net     netname.Target
	program string
	note    string // why it's invalid
}

// Ask decides any question, as text.
func Ask(c *policy.Compiled, sys fspath.FileSystem, q Question) (policy.Verdict, Answer) {
	v, a := ask(c, sys, q)
	return v, answer(c, v, a)
}

// Describe makes a verdict readable. target is the target of the verdict; "" means the question's.
func Describe(c *policy.Compiled, v policy.Verdict, q Question, target string) Answer {
	a := asked{Question: q, target: target}
	if target == "" {
		a.target = q.Target
	}
	if q.Resource == policy.Net {
		if t, err := q.NetTarget(); err == nil {
			a.net = t
		}
	}
	if q.Resource == policy.Commands {
		a.program = a.target
	}
	return answer(c, v, a)
}

// DescribeNet makes a verdict on the network readable. shown is the target as it was named; a suggestion is about t.
func DescribeNet(c *policy.Compiled, v policy.Verdict, t *netname.Target, shown string) Answer {
	return answer(c, v, asked{Question: Question{Resource: policy.Net}, target: shown, net: *t})
}

func ask(c *policy.Compiled, sys fspath.FileSystem, q Question) (policy.Verdict, asked) {
	a := asked{Question: q, target: q.Target}
	switch q.Resource {
	case policy.FS:
		return askFS(c, sys, a)
	case policy.Net:
		return askNet(c, a)
	case policy.Env:
		v := c.CheckEnv(q.Target)
		if why := envname.NeedsExactRule(q.Target); !v.Allow && v.Rule == policy.NoMatch && why != "" {
			a.note = why + ": only a rule with exactly this name grants it"
		}
		return v, a
	case policy.Commands:
		return askCommand(c, sys, a)
	}
	return policy.Verdict{Reason: policy.EngineError, Layer: -1, Rule: policy.NoMatch}, a
}

func askFS(c *policy.Compiled, sys fspath.FileSystem, a asked) (policy.Verdict, asked) {
	follow := a.Caps != policy.Delete && !a.Symlink
	v, p := c.CheckInput(sys, a.Target, follow, a.Caps)
	a.target = p
	if v.Reason == policy.PathUnresolved {
		if _, err := c.ResolveTarget(sys, a.Target, follow); err != nil {
			a.note = err.Error()
		}
	}
	return v, a
}

func askNet(c *policy.Compiled, a asked) (policy.Verdict, asked) {
	t, err := a.Question.NetTarget()
	if err != nil {
		a.note = err.Error()
		return policy.Verdict{Reason: policy.HostMismatch, Layer: -1, Rule: policy.NoMatch}, a
	}
	a.net, a.target = t, t.String()
	return c.CheckNet(&t), a
}

// NetTarget returns the target of a question about the network.
func (q *Question) NetTarget() (t netname.Target, err error) {
	if !q.Listen {
		t, err = netname.ParseTarget(q.Target)
		t.Method, t.Scheme = q.Method, cmp.Or(q.Scheme, t.Scheme)
		return t, err
	}
	t, err = netname.ParseListenTarget(q.Target)
	t.Scheme, t.Path, t.Listen = "", nil, true
	return t, err
}

func askCommand(c *policy.Compiled, sys fspath.FileSystem, a asked) (policy.Verdict, asked) {
	if len(a.Argv) == 0 {
		a.note = "no command"
		return policy.Verdict{Reason: policy.CommandNotListed, Layer: -1, Rule: policy.NoMatch}, a
	}
	a.target = strings.Join(a.Argv, " ")
	name := a.Argv[0]
	if strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		name = path.Join(c.Workspace, name)
	}
	program, ok := fspath.FindProgram(sys, c.Path, name)
	if !ok {
		a.note = "no such program in PATH"
		return policy.Verdict{Reason: policy.CommandNotListed, Layer: -1, Rule: policy.NoMatch}, a
	}
	a.program = program
	v := c.CheckCommand(program, a.Argv)
	if !v.Allow {
		if v.Reason == policy.ArgsNotListed {
			a.note = c.Rules[v.Rule].Command.NameMismatch(name)
		}
		return v, a
	}
	if x, _ := c.CheckFSInput(sys, program, policy.Execute); !x.Allow {
		a.Resource, a.Caps, a.target = policy.FS, policy.Execute, program
		a.note = "the command is listed, but its program may not be executed"
		return x, a
	}
	return v, a
}

func answer(c *policy.Compiled, v policy.Verdict, a asked) Answer {
	out := Answer{Decision: "deny", Reason: v.Reason, Target: a.target, Note: a.note}
	if v.Allow {
		out.Decision = "allow"
	}
	if v.Rule >= 0 && int(v.Rule) < len(c.Rules) {
		out.Rule = c.Rules[v.Rule]
	}
	if v.Layer >= 0 && int(v.Layer) < len(c.Layers) {
		out.Authority = c.Layers[v.Layer].Authority
		if out.Also = also(c, v, &a); out.Also != "" { // the alias needs a rule
			a.target = out.Also
		}
		if !v.Allow {
			out.Suggest, out.Advice = suggest(c, v, c.Layers[v.Layer], &a)
		}
		if !v.Allow && out.Note == "" {
			out.Note = meantFor(c, v, &a)
		}
	}
	return out
}

// also returns the alias by which a target is denied; "" if its own path is denied.
func also(c *policy.Compiled, v policy.Verdict, a *asked) string {
	if v.Allow || a.Resource != policy.FS || v.Rule < 0 {
		return ""
	}
	r, l := c.Rules[v.Rule], c.Layers[v.Layer]
	if own, ok := l.CheckFS(a.target, a.Caps); !ok && own.Rule == v.Rule {
		return ""
	}
	for i := range c.Aliases {
		if other, ok := c.Aliases[i].Other(a.target); ok {
			if fs, by := l.RulesByAlias(&c.Aliases[i], fspath.Beneath(a.target, c.Aliases[i].From)); fs == r || slices.Contains(by[:], r) {
				return other
			}
		}
	}
	if c.Pinned(r) && r.FS.Path != a.target {
		return r.FS.Path
	}
	return ""
}
