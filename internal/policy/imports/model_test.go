package imports

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// The answers, from the strict to the loose.
const (
	deny = iota
	ask
	allow
)

var answers = map[string]int{gate.Deny: deny, gate.Ask: ask, gate.Allow: allow}

func verdict(ok bool) int {
	if ok {
		return allow
	}
	return deny
}

// imported is a fixture, as it's read by a model of its system, and the policy that it was imported as.
type imported struct {
	*tool.Engine
	t         *testing.T
	source    map[string]any
	left      []string
	workspace string

	seen         map[string]bool // questions
	asked, equal int
}

// importFixture imports a fixture for a workspace with a few files.
func importFixture(t *testing.T, from, name string) *imported {
	t.Helper()
	text := childtest.ReadFile(t, filepath.Join("testdata", name))
	dir := childtest.TempDir(t)
	dir += "/w"
	for _, sub := range []string{"src/generated", ".config/jp/tools", "tmp", "secrets", "vendor", "docs"} {
		childtest.Must(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	t.Setenv("HOME", filepath.Dir(dir))
	t.Chdir(dir)
	r, err := Import(from, name, text)
	childtest.Must(t, err)
	o := policyload.Options{Files: []string{"p.toml"}, Dir: dir, Workspace: ".", NoDetect: true, Reads: true}
	o.Edited = &policyload.Edited{Name: dir + "/p.toml", Text: r.Policy}
	if _, err := o.Load(""); err != nil {
		t.Fatalf("%s\n%s", err, r.Policy)
	}
	set := o.Document.Tools()
	im := &imported{t: t, seen: map[string]bool{}, left: r.Left, workspace: dir}
	im.Engine = &tool.Engine{Set: set, Gate: set.Gate(), Files: hostfs.Machine{}, Home: filepath.Dir(dir), Compile: func(s tool.Scope) (*policy.Compiled, error) {
		q := o
		q.Tool, q.Agent = s.Tool, s.Agent
		q.Caller = policyload.Caller{Provider: s.Provider, Model: s.Model, Group: s.Group, Depth: uint16(s.Depth)}
		return q.Load("")
	}}
	for _, f := range formats {
		if f.name == from {
			im.source, err = f.read(text)
			childtest.Must(t, err)
		}
	}
	return im
}

// compiled is the policy of a tool.
func (im *imported) compiled(name string) *policy.Compiled {
	im.t.Helper()
	c, err := im.Compile(tool.Scope{Tool: name})
	childtest.Must(im.t, err)
	return c
}

// call judges a call. arguments are in pairs.
func (im *imported) call(name string, caller gate.Call, arguments ...string) int {
	im.t.Helper()
	args := map[string]string{}
	for i := 0; i+1 < len(arguments); i += 2 {
		args[arguments[i]] = arguments[i+1]
	}
	text, err := json.Marshal(args)
	childtest.Must(im.t, err)
	c := caller
	c.ID, c.Tool, c.Arguments = "1", name, text
	full, err := json.Marshal(map[string]any{
		"id": "1", "tool": name, "arguments": args, "agent": c.Agent, "provider": c.Provider, "model": c.Model, "depth": c.Depth, "owner": c.Owner,
	})
	childtest.Must(im.t, err)
	parsed, _, err := gate.Parse(full)
	childtest.Must(im.t, err)
	a, err := im.Judge(parsed)
	childtest.Must(im.t, err)
	return answers[a.Decision]
}

// same compares an answer with that of the model, once for a question. The policy is never wider. It's narrower only where the model gives a reason.
func (im *imported) same(got, want int, narrower bool, format string, args ...any) {
	im.t.Helper()
	question := fmt.Sprintf(format, args...)
	if im.seen[question] {
		return
	}
	im.seen[question] = true
	im.asked++
	switch {
	case got > want:
		im.t.Errorf("wider: %s: %d, and there it's %d", question, got, want)
	case got < want && !narrower:
		im.t.Errorf("narrower without a reason: %s: %d, and there it's %d", question, got, want)
	case got == want:
		im.equal++
	}
}

// enough fails if there were fewer than 200 questions, or if a smaller part of them, in percent, had the same answer.
func (im *imported) enough(equal int) {
	im.t.Helper()
	if im.asked < 200 || im.equal*100 < im.asked*equal {
		im.t.Errorf("%d questions, and %d equal answers", im.asked, im.equal)
	}
}

// get follows keys into the source.
func get(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// texts returns a list of strings.
func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, x := range list {
		out = append(out, x.(string))
	}
	return out
}

// visible reports whether a caller sees a tool.
func (im *imported) visible(c gate.Call, name string) bool {
	given := make([]visibility.Tool, len(clawTools))
	for i, n := range clawTools {
		given[i].Name = n
	}
	caller := visibility.Caller{Agent: c.Agent, Provider: c.Provider, Model: c.Model, Owner: c.Owner, Depth: c.Depth, Sandboxed: im.Sandboxed}
	i := slices.Index(clawTools, name)
	return visibility.Decide(im.Set, caller, given).Tools[i].Removed == nil
}
