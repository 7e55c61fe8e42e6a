package manifest

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/policytest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// source is a policy of layers for the first layout.
func source(layers []policy.SourceLayer) *policy.Source {
	return &policy.Source{Name: "p", Workspace: layouts[0].workspace, Home: layouts[0].home, Path: searchPath, Layers: layers}
}

// manifestOf generates the manifest of a source, and reads it from its text.
func manifestOf(t *rapid.T, src *policy.Source) *Manifest {
	m, err := Generate(Input{Layer: &toolset.Layer{Author: policy.Session}, Load: func(string, Caller) (*policy.Source, error) { return src, nil }})
	childtest.Must(t, err)
	text, err := m.JSON()
	childtest.Must(t, err)
	if m, err = Parse(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// A manifest whose digest is right can't make Verify panic.
func TestParseNull(t *testing.T) {
	for _, x := range []func(*Manifest){
		func(m *Manifest) { m.Stages[0].Access = []*Access{nil} },
		func(m *Manifest) { m.Layer.Tools = []*toolset.Tool{nil} },
		func(m *Manifest) { m.Layer.Before = []*toolset.Hook{nil} },
		func(m *Manifest) { m.Layer.Agent.Names = map[string]*toolset.Stage{"a": nil} },
	} {
		m, err := Generate(Input{Layer: &toolset.Layer{Author: policy.Session}, Load: func(string, Caller) (*policy.Source, error) { return source(nil), nil }})
		childtest.Must(t, err)
		x(m)
		text, err := m.JSON()
		childtest.Must(t, err)
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "null") {
			t.Errorf("%v", err)
		}
	}
}

func compiled(t *rapid.T, src *policy.Source) *policy.Compiled {
	c, err := policy.Compile(src, tree{layouts[0]})
	if err != nil {
		t.Skip(err) // the two rules don't go together
	}
	return c
}

// someLayers are random layers, with rules of every resource in the first one.
func someLayers(t *rapid.T) []policy.SourceLayer {
	layers, _ := policytest.GenLayers(t)
	first := &layers[0]
	for range rapid.IntRange(0, 5).Draw(t, "net rules") {
		first.Net = append(first.Net, policytest.GenNet(t))
	}
	names := rapid.SampledFrom([]string{"A", "AB", "AB*", "A*", "ABC*", "B", "AWS_SECRET_ACCESS_KEY", "AWS_*", "*"})
	for range rapid.IntRange(0, 4).Draw(t, "env rules") {
		first.Env = append(first.Env, policy.EnvRule{Name: names.Draw(t, "name"), Read: rapid.Bool().Draw(t, "read")})
	}
	args := rapid.SampledFrom([][][]string{nil, {}, {{"status"}}, {{"status", "**"}}, {{"push", "**"}, {"status"}}, {{"**"}}})
	for range rapid.IntRange(0, 3).Draw(t, "command rules") {
		a := args.Draw(t, "args")
		first.Commands = append(first.Commands, policy.CommandRule{Name: rapid.SampledFrom([]string{"git", "ls", "python3"}).Draw(t, "program"), Args: a, HasArgs: a != nil})
	}
	for _, r := range []policy.Resource{policy.Net, policy.Env, policy.Commands} {
		first.Defaults[r] = rapid.SampledFrom([]policy.DefaultAction{policy.Undeclared, policy.Deny, policy.Allow}).Draw(t, "default")
	}
	return layers
}

// mutated changes a few rules, so that two policies differ a little.
func mutated(t *rapid.T, layers []policy.SourceLayer) []policy.SourceLayer {
	if rapid.Bool().Draw(t, "another") {
		return someLayers(t)
	}
	out := append([]policy.SourceLayer{}, layers...)
	l := &out[rapid.IntRange(0, len(out)-1).Draw(t, "layer")]
	l.FS = append([]policy.FSRule{}, l.FS...)
	l.FS = append(l.FS, policytest.GenRule(t, "one more"))
	if n := len(l.FS); n > 1 && rapid.Bool().Draw(t, "one less") {
		i := rapid.IntRange(0, n-1).Draw(t, "which")
		l.FS = append(l.FS[:i:i], l.FS[i+1:]...)
	}
	return out
}

// questionsOf are random questions of every resource.
func questionsOf(t *rapid.T) (all []explain.Question) {
	caps := []policy.Caps{policy.Read, policy.Create, policy.Update, policy.Delete, policy.Execute}
	for range 20 {
		p := policytest.GenPath(t, "path")
		if rapid.Bool().Draw(t, "relative") {
			p = strings.TrimPrefix(p, "/")
		}
		for _, c := range caps {
			all = append(all, explain.Question{Resource: policy.FS, Caps: c, Target: p})
		}
	}
	for range 20 {
		host := rapid.OneOf(policytest.SomeAddrs, rapid.SampledFrom([]string{"a.com", "x.a.com", "b.com", "localhost"})).Draw(t, "target")
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		scheme := rapid.SampledFrom([]string{"http", "https", "tcp", "udp", "ssh"}).Draw(t, "scheme")
		target := scheme + "://" + host
		if port := policytest.SomePorts.Draw(t, "port"); port > 0 || scheme == "tcp" || scheme == "udp" {
			target += fmt.Sprint(":", max(port, 1))
		}
		if scheme == "http" {
			target += rapid.SampledFrom([]string{"", "/x", "/x/y", "/xy"}).Draw(t, "path")
		}
		all = append(all, explain.Question{Resource: policy.Net, Target: target})
	}
	for _, name := range []string{"A", "AB", "ABC", "ABCD", "AX", "B", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "HOME"} {
		all = append(all, explain.Question{Resource: policy.Env, Target: name})
	}
	for _, argv := range [][]string{{"git"}, {"git", "status"}, {"git", "status", "-s"}, {"git", "push"}, {"git", "x"}, {"ls"}, {"ls", "status"}, {"python3"}, {"python3", "push", "x"}, {"make"}} {
		all = append(all, explain.Question{Resource: policy.Commands, Argv: argv})
	}
	return all
}

// code returns the code of a question that has become allowed.
func code(q *explain.Question) string {
	switch {
	case q.Resource == policy.Net:
		return "tool.network.widened"
	case q.Resource == policy.Env:
		return "tool.environment.widened"
	case q.Resource == policy.Commands || q.Caps == policy.Execute:
		return "tool.exec.widened"
	case q.Caps == policy.Read:
		return "tool.filesystem.read.widened"
	}
	return "tool.filesystem.write.widened"
}

// Every widening that random targets show is found, with a witness that the old policy denies and the new one allows.
func TestVerifyFindsEveryWidening(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		layers := someLayers(t)
		old, new := source(layers), source(mutated(t, layers))
		a, b := compiled(t, old), compiled(t, new)
		r, err := Verify(manifestOf(t, old), manifestOf(t, new))
		childtest.Must(t, err)
		codes := map[string]bool{}
		for _, w := range r.Widenings {
			codes[w.Code] = true
			if w.Witness != nil {
				checkWitness(t, old, new, w)
			}
		}
		for _, q := range questionsOf(t) {
			x, _ := explain.Ask(a, tree{layouts[0]}, q)
			y, _ := explain.Ask(b, tree{layouts[0]}, q)
			if c := code(&q); !x.Allow && y.Allow {
				if found[c]++; !codes[c] {
					t.Errorf("%+v is denied and then allowed, and there's no %s in %+v", q, c, r.Widenings)
				}
			}
		}
	})
	for _, c := range []string{"tool.network.widened", "tool.environment.widened", "tool.exec.widened", "tool.filesystem.read.widened", "tool.filesystem.write.widened"} {
		if found[c] == 0 {
			t.Errorf("no random target shows a %s", c)
		}
	}
}

// checkWitness asks both policies, for each place that a workspace can have: one of them shows the widening.
func checkWitness(t *rapid.T, old, new *policy.Source, w Widening) {
	line := explain.Line{Resource: w.Witness.Resource, Action: w.Witness.Action, Target: w.Witness.Target, Argv: w.Witness.Argv}
	for _, at := range layouts {
		q, err := line.Parse(at.home)
		if err != nil {
			t.Fatalf("the witness %+v is no question: %v", w.Witness, err)
		}
		x, _ := explain.Ask(compiledAt(t, old, at), tree{at}, q)
		y, _ := explain.Ask(compiledAt(t, new, at), tree{at}, q)
		if !x.Allow && y.Allow {
			return
		}
	}
	t.Fatalf("the witness %+v of %s shows no widening", w.Witness, w.Code)
}

func compiledAt(t *rapid.T, src *policy.Source, at layout) *policy.Compiled {
	s := *src
	s.Workspace, s.Home = at.workspace, at.home
	return policytest.CompileSource(t, &s, tree{at})
}

// Another authority's policy only restricts, so there's no widening, and nor is there one between a policy and itself.
func TestVerifyReportsNoNarrowing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := someLayers(t)
		more := someLayers(t)[:1]
		more[0].Authority, more[0].Protect, more[0].Secrets = policy.Subagent, policy.ProtectOff, policy.ProtectOff
		old, new := source(layers), source(append(append([]policy.SourceLayer{}, layers...), more...))
		compiled(t, old)
		compiled(t, new)
		for _, x := range []*policy.Source{old, new} {
			r, err := Verify(manifestOf(t, old), manifestOf(t, x))
			childtest.Must(t, err)
			if len(r.Widenings) > 0 {
				t.Fatalf("a widening: %+v of %+v", r.Widenings[0], r.Widenings[0].Witness)
			}
		}
	})
}
