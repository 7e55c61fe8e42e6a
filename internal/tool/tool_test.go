package tool

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/constraint"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

const testPolicy = `version = 1
[access]
runtime = false
default = { fs = "deny", net = "deny", commands = "deny" }
fs = [{ path = "common", read = true }]
[authorities.agent.narrow]
access.default = { fs = "deny" }
[authorities.agent.blind]
deny = ["read"]
[tools]
own = { kind = "read", access.fs = [{ path = "own", read = true }] }
"server:files" = { access.fs = [{ path = "served", read = true }] }
"mcp__files__get" = { kind = "read" }
"mcp__other__get" = { kind = "read" }
once = { constraints.max_invocations = 1 }
local = { command = ["echo", "--", "{text}"] }
panics = { kind = "read" }
lookup = { plugin = "contacts", kind = "read" }
"group:contacts" = { access.fs = [{ path = "own", read = true }] }
`

func newEngine(t *testing.T) *Engine {
	t.Helper()
	dir := t.TempDir()
	file := dir + "/p.toml"
	childtest.Must(t, os.WriteFile(file, []byte(testPolicy), 0o644))
	load := func(s Scope) (*policy.Compiled, *toolset.Set, error) {
		src, doc, err := policyfile.Load(policyfile.Request{
			Policies: []string{file}, Dir: dir, Workspace: dir, Home: dir + "/home", Tool: s.Tool, Agent: s.Agent,
		}, hostfs.Machine{})
		if err != nil {
			return nil, nil, err
		}
		c, err := policy.Compile(src, hostfs.Machine{})
		return c, doc.Tools(), err
	}
	_, set, err := load(Scope{})
	childtest.Must(t, err)
	return &Engine{
		Set: set, Gate: set.Gate(), Files: hostfs.Machine{},
		Compile: func(s Scope) (*policy.Compiled, error) {
			c, _, err := load(s)
			return c, err
		},
	}
}

// Each call is decided under the policy of its own tool, server and caller, in whatever order they come.
func TestScopes(t *testing.T) {
	e := newEngine(t)
	rows := []struct{ call, want string }{
		{`"tool":"read","arguments":{"path":"common"}`, "allow rule_allows"},
		{`"tool":"read","arguments":{"path":"own"}`, "deny no_rule"},
		{`"tool":"own","arguments":{"path":"own"}`, "allow rule_allows declared"},
		{`"tool":"own","arguments":{"path":"common"}`, "allow rule_allows"},
		{`"tool":"Own","arguments":{"path":"own"}`, "allow rule_allows declared"},
		{`"tool":"own","arguments":{"path":"own"},"agent":"narrow"`, "deny no_rule"},
		{`"tool":"read","arguments":{"path":"common"},"agent":"blind"`, "deny not_visible"},
		{`"tool":"read","arguments":{"path":"common"},"agent":"other"`, "allow rule_allows"},
		{`"tool":"mcp__files__get","arguments":{"path":"served"}`, "allow rule_allows declared"},
		{`"tool":"mcp__other__get","arguments":{"path":"served"}`, "deny no_rule"},
		{`"tool":"mcp__own__own","arguments":{"path":"own"}`, "deny no_rule"},
		{`"tool":"lookup","arguments":{"path":"own"}`, "allow rule_allows declared"},
		{`"tool":"mcp--files--get","arguments":{"path":"served"}`, "allow rule_allows declared"},
		{`"tool":"MCP_-files_-get","arguments":{"path":"served"}`, "allow rule_allows declared"},
		{`"tool":"mcp--own--own","arguments":{"path":"own"}`, "deny no_rule"},
		{`"tool":"local","arguments":{"text":"x"}`, "allow undeclared"},
		{`"tool":"local","arguments":{"text":"\u0000"}`, "deny schema"},
		{`"tool":"local","arguments":{"text":1}`, "deny schema"},
		{`"tool":"local","arguments":{}`, "deny schema"},
	}
	for range 2 { // the second time from what is kept
		for _, row := range rows {
			a, err := e.Answer(parse(t, row.call))
			childtest.Must(t, err)
			got := a.Decision + " " + a.Reason
			if a.Declared {
				got += " declared"
			}
			if got != row.want {
				t.Errorf("%s: %s (%s), want %s", row.call, got, a.Message, row.want)
			}
		}
	}
}

// A call's tables are found by the name that was given, with each author's own aliases.
func TestTable(t *testing.T) {
	named := func(names ...string) (tools []*toolset.Tool) {
		for _, n := range names {
			tools = append(tools, &toolset.Tool{Pattern: toolset.Entry{Text: n}})
		}
		return tools
	}
	e := &Engine{Set: &toolset.Set{Layers: []*toolset.Layer{
		{Author: policy.Host, Aliases: map[string]string{"run_sh": "bash"}, Tools: named("Bash", "server:x")},
		{Author: policy.Session, Aliases: map[string]string{"bash": "foo"}, Tools: named("foo")},
	}}}
	for name, want := range map[string]string{"Bash": "bash", "Run-Sh": "run_sh", "foo": "foo", "other": "", "mcp--X--bash": "server:x", "mcp__y__bash": ""} {
		if got := e.table(parse(t, `"tool":"`+name+`","arguments":{}`)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func parse(t *testing.T, call string) *gate.Call {
	t.Helper()
	c, _, err := gate.Parse([]byte(`{"id":"1",` + call + `}`))
	childtest.Must(t, err)
	return c
}

// store denies, fails or panics by the tool's name.
type store struct{ begun []string }

func (s *store) Begin(c *constraint.Call, of *toolset.Settings) (*constraint.Denial, error) {
	switch s.begun = append(s.begun, of.Name); of.Name {
	case "once":
		return &constraint.Denial{Text: "no more"}, nil
	case "own":
		return nil, errors.New("damaged")
	case "panics":
		panic("a bug")
	}
	return nil, nil
}

func (s *store) Check(c *constraint.Call, of *toolset.Settings) (*constraint.Denial, error) {
	d, err := s.Begin(c, of)
	s.begun = s.begun[:len(s.begun)-1]
	return d, err
}

func (s *store) End(string, string, bool) error { return nil }

// What is denied isn't counted; a constraint denies; a store that fails, and a mistake of this program, are errors and never an answer.
func TestCount(t *testing.T) {
	e, s := newEngine(t), new(store)
	e.Store = s
	for _, row := range []struct{ call, want, err string }{
		{`"tool":"read","arguments":{"path":"own"}`, "no_rule", ""},
		{`"tool":"once","arguments":{}`, "constraint", ""},
		{`"tool":"read","arguments":{"path":"common"}`, "rule_allows", ""},
		{`"tool":"own","arguments":{"path":"own"}`, "", "damaged"},
		{`"tool":"panics","arguments":{"path":"common"}`, "", "a mistake in toolguard: a bug"},
	} {
		a, err := e.Answer(parse(t, row.call))
		if (err == nil) != (row.err == "") || err != nil && (a != nil || !strings.Contains(err.Error(), row.err)) || err == nil && a.Reason != row.want {
			t.Errorf("%s: %+v, %v; want %s%s", row.call, a, err, row.want, row.err)
		}
	}
	if got := strings.Join(s.begun, " "); got != "once read own panics" {
		t.Errorf("counted %s", got)
	}
	if rule := NeedsState(e.Set); rule == nil || rule.ID != "tools.once.constraints.max_invocations" {
		t.Errorf("%+v", rule)
	}
}

func TestSwitch(t *testing.T) {
	for _, row := range []struct {
		flag, variable string
		host           bool
		want           string
	}{
		{"", "", false, "on"},
		{"off", "", false, "off"},
		{"off", "strict", false, "off"},
		{"off", "", true, "error"},
		{"", "off", false, "error"},
		{"", "strict", false, "strict"},
		{"on", "strict", false, "strict"},
		{"strict", "", true, "strict"},
		{"Off", "", false, "error"},
		{"", "1", false, "error"},
	} {
		g := toolset.Gate{Enabled: true, Host: row.host}
		got := "off"
		switch err := Switch(&g, row.flag, row.variable); {
		case err != nil:
			got = "error"
		case g.Strict && g.Enabled:
			got = "strict"
		case g.Enabled:
			got = "on"
		}
		if got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}
