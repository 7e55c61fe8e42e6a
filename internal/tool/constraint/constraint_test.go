package constraint

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

func rule(id string) toolset.Rule {
	return toolset.Rule{ID: id, At: policy.Position{File: "p.toml", Line: 3, Col: 1}}
}

// after are entries of only_after.
func after(l *toolset.Layer, patterns ...string) (list []toolset.Predecessor) {
	for i, p := range patterns {
		list = append(list, toolset.Predecessor{Entry: toolset.Entry{Text: p, Rule: rule(fmt.Sprintf("tools.commit.constraints.only_after[%d]", i))}, Layer: l})
	}
	return list
}

func TestCheck(t *testing.T) {
	layer := &toolset.Layer{
		Groups:  map[string][]toolset.Entry{"web": {{Text: "web_*"}, {Text: "fetch"}}},
		Aliases: map[string]string{"download": "fetch"},
		Tools:   []*toolset.Tool{{Pattern: toolset.Entry{Text: "lookup"}, Plugin: "contacts"}, {Pattern: toolset.Entry{Text: "send"}, Plugin: "mail"}},
	}
	rules := map[string]toolset.Rule{"constraints.forbidden": rule("f"), "constraints.max_invocations": rule("m")}
	for _, row := range []struct {
		name     string
		settings toolset.Settings
		history  History
		want     string
	}{
		{"no constraint", toolset.Settings{}, History{Started: map[string]int{"commit": 100}}, ""},
		{"forbidden", toolset.Settings{Forbidden: true}, History{}, "f: tool commit is forbidden"},
		{"below the maximum", toolset.Settings{MaxInvocations: 3}, History{Started: map[string]int{"commit": 2, "fetch": 5}}, ""},
		{"the maximum", toolset.Settings{MaxInvocations: 3}, History{Started: map[string]int{"commit": 3}}, "m: tool commit may be called 3 times in an invocation, and was called 3 times"},
		{"a maximum that was lowered", toolset.Settings{MaxInvocations: 1}, History{Started: map[string]int{"commit": 2}}, "m: tool commit may be called once in an invocation, and was called 2 times"},
		{"nothing before", toolset.Settings{OnlyAfter: after(layer, "fetch")}, History{}, "tools.commit.constraints.only_after[0]: tool commit may only be called after fetch has ended without an error"},
		{"only begun", toolset.Settings{OnlyAfter: after(layer, "fetch")}, History{Started: map[string]int{"fetch": 1}, Open: []Open{{ID: "1", Tool: "fetch"}}}, "tools.commit.constraints.only_after[0]: tool commit may only be called after fetch has ended without an error"},
		{"ended", toolset.Settings{OnlyAfter: after(layer, "fetch")}, History{Completed: []string{"fetch"}}, ""},
		{"each entry", toolset.Settings{OnlyAfter: after(layer, "fetch", "read")}, History{Completed: []string{"fetch"}}, "tools.commit.constraints.only_after[1]: tool commit may only be called after read has ended without an error"},
		{"an alias", toolset.Settings{OnlyAfter: after(layer, "Download")}, History{Completed: []string{"fetch"}}, ""},
		{"a group", toolset.Settings{OnlyAfter: after(layer, "group:web")}, History{Completed: []string{"web_search"}}, ""},
		{"a glob", toolset.Settings{OnlyAfter: after(layer, "web_*")}, History{Completed: []string{"web_search"}}, ""},
		{"a plugin", toolset.Settings{OnlyAfter: after(layer, "group:contacts")}, History{Completed: []string{"lookup"}}, ""},
		{"another plugin", toolset.Settings{OnlyAfter: after(layer, "group:contacts")}, History{Completed: []string{"send"}}, "tools.commit.constraints.only_after[0]: tool commit may only be called after group:contacts has ended without an error"},
		{"a server's tool of the same bare name", toolset.Settings{OnlyAfter: after(layer, "fetch")}, History{Completed: []string{"mcp__evil__fetch"}}, "tools.commit.constraints.only_after[0]: tool commit may only be called after fetch has ended without an error"},
	} {
		row.settings.Name, row.settings.Rules = "commit", rules
		got := ""
		if d := Check(&row.settings, &row.history); d != nil {
			got = d.Rule.ID + ": " + d.Text
		}
		if got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
}

// A sequence of calls and their ends in one invocation.
func TestHistory(t *testing.T) {
	layer := new(toolset.Layer)
	settings := map[string]*toolset.Settings{
		"fetch":  {Name: "fetch", MaxInvocations: 3},
		"commit": {Name: "commit", OnlyAfter: after(layer, "fetch")},
		"rm":     {Name: "rm", Forbidden: true},
	}
	h := new(History)
	for i, step := range []struct{ do, want string }{
		{"commit 1 x", "denied"},
		{"fetch 1 x", "counted"},
		{"fetch 1 x", "known"}, // asked about again
		{"fetch 1 y", "id \"1\" is that of another call, of the tool fetch, which hasn't ended"},
		{"commit 1 x", "id \"1\" is that of another call, of the tool fetch, which hasn't ended"},
		{"rm 1 x", "denied"},
		{"error 1", ""},
		{"commit 2 x", "denied"}, // it ended with an error
		{"end 1", "no call with the id \"1\" is open in this invocation"},
		{"fetch 1 x", "counted"}, // its id is free, and the call counts
		{"end 1", ""},
		{"commit 2 x", "counted"},
		{"fetch  x", "counted"},
		{"fetch  x", "denied"},
		{"fetch 3 x", "denied"},
		{"end ", "no call with the id \"\" is open in this invocation"},
	} {
		verb, rest, _ := strings.Cut(step.do, " ")
		id, arguments, _ := strings.Cut(rest, " ")
		got := ""
		switch verb {
		case "end", "error":
			if err := h.End(id, verb == "end"); err != nil {
				got = err.Error()
			}
		default:
			d, changed, err := h.Begin(&Call{ID: id, Arguments: arguments}, settings[verb])
			rejected := (*RejectedError)(nil)
			switch {
			case errors.As(err, &rejected):
				got = rejected.Text
			case d != nil:
				got = "denied"
			case changed:
				got = "counted"
			default:
				got = "known"
			}
		}
		if got != step.want || !h.Valid() {
			t.Errorf("%d: %s: got %s, want %s; %+v", i, step.do, got, step.want, h)
		}
	}
	if h.Started["fetch"] != 3 || h.Started["commit"] != 1 || h.Started["rm"] != 0 {
		t.Errorf("%+v", h.Started)
	}
}

// The oldest of too many open calls is forgotten: it can't end, and counts again.
func TestManyOpen(t *testing.T) {
	h, s := new(History), &toolset.Settings{Name: "x"}
	for i := range maxOpen + 1 {
		if _, changed, err := h.Begin(&Call{ID: fmt.Sprint(i)}, s); err != nil || !changed {
			t.Fatal(i, err)
		}
	}
	if err := h.End("0", true); err == nil || len(h.Open) != maxOpen || !h.Valid() {
		t.Errorf("%v, %d", err, len(h.Open))
	}
	if err := h.End("1", true); err != nil {
		t.Error(err)
	}
	if _, changed, _ := h.Begin(&Call{ID: "0"}, s); !changed || h.Started["x"] != maxOpen+2 {
		t.Errorf("%t, %d", changed, h.Started["x"])
	}
}

func TestCheckNames(t *testing.T) {
	for _, row := range []struct {
		invocation, id string
		ok             bool
	}{{"i", "", true}, {"i", "x", true}, {"", "x", false}, {strings.Repeat("i", 257), "", false}, {"i", strings.Repeat("x", 257), false}, {strings.Repeat("i", 256), strings.Repeat("x", 256), true}, {"\xff", "", false}, {"i", "\xff", false}} {
		if err := CheckNames(row.invocation, row.id); (err == nil) != row.ok {
			t.Errorf("%.20s %.20s: %v", row.invocation, row.id, err)
		}
	}
}

func TestValid(t *testing.T) {
	started := map[string]int{"x": 1}
	for _, h := range []History{
		{Started: map[string]int{"x": 0}},
		{Started: map[string]int{"x": -1}},
		{Started: map[string]int{"": 1}},
		{Completed: []string{"x"}},
		{Started: started, Open: []Open{{ID: "", Tool: "x"}}},
		{Started: started, Open: []Open{{ID: "1", Tool: "y"}}},
		{Started: started, Open: []Open{{ID: "1", Tool: "x"}, {ID: "1", Tool: "x"}}},
		{Started: started, Open: []Open{{ID: strings.Repeat("1", 257), Tool: "x"}}},
		{Started: started, Open: make([]Open, maxOpen+1)},
	} {
		if h.Valid() {
			t.Errorf("%+v is valid", h)
		}
	}
}
