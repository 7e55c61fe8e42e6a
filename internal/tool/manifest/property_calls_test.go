package manifest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/calls/host"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/manifest"
	"github.com/toolguard/toolguard/internal/tool/manifest/load"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// keys are a policy about calls: TOML values by dotted keys. Lists are apart, since narrowing one is adding to it.
type keys struct {
	values map[string]string
	lists  map[string][]string
}

func (k keys) clone() keys {
	out := keys{maps.Clone(k.values), map[string][]string{}}
	for name, l := range k.lists {
		out.lists[name] = slices.Clone(l)
	}
	return out
}

func (k keys) text() string {
	lines := []string{"version = 1"}
	for _, name := range slices.Sorted(maps.Keys(k.values)) {
		lines = append(lines, name+" = "+k.values[name])
	}
	for _, name := range slices.Sorted(maps.Keys(k.lists)) {
		lines = append(lines, name+" = ["+strings.Join(k.lists[name], ", ")+"]")
	}
	return strings.Join(lines, "\n") + "\n"
}

var (
	someTools  = []string{`"a"`, `"b"`, `"c*"`, `"c_1"`, `"mcp__s__*"`, `"mcp__s__x"`, `"Bash"`, `"read"`, `"group:g"`, `"group:fs"`}
	someHooks  = []string{`{ command = ["/bin/true"] }`, `{ command = ["/bin/false"], tools = ["c*"] }`, `{ command = ["/bin/true", "2"], tools = ["a", "group:g"] }`}
	stages     = []string{"global", "agent.r", "agent.r.providers.openai", "group.f", "group.f.providers.openai", "provider.openai", "subagent"}
	namedTools = []string{"a", `"c*"`, `"mcp__s__*"`, "Bash"}
)

// choices are the values that keys can have; each can also be absent.
var choices = func() map[string][]string {
	all := map[string][]string{
		"gate.enabled": {"true", "false"}, "gate.strict": {"true"}, "gate.shell": {`"bash"`}, "gate.allow_parent_access": {"true"},
		"gate.parameters":    {`{ out = "path" }`, `{ out = "text", cmd = "command" }`},
		"approvals.security": {`"deny"`, `"allowlist"`, `"full"`}, "approvals.ask": {`"off"`, `"on-miss"`, `"always"`},
		"approvals.ask_fallback": {`"deny"`, `"allowlist"`, `"full"`}, "approvals.agents.r.security": {`"deny"`, `"full"`},
		"access.default": {`{ fs = "deny" }`, `{ fs = "allow" }`, `{ net = "allow", commands = "deny" }`},
		"access.fs":      {`[{ path = "src", read = true }]`, `[{ path = ".", read = true, write = true }]`},
		"groups.g":       {`["a"]`, `["a", "b"]`}, "limits.pids": {"5", "9"}, "authorities.subagent.max_depth": {"1", "2"},
		"authorities.agent.r.access.default": {`{ net = "deny" }`, `{ fs = "deny" }`},
	}
	for _, t := range namedTools {
		for key, values := range map[string][]string{
			"kind": {`"read"`, `"execute"`, `"modify"`}, "risk": {`"low"`, `"high"`}, "ask": {`"off"`, `"always"`, `"on-miss"`}, "owner_only": {"true"},
			"constraints.forbidden": {"true"}, "constraints.max_invocations": {"1", "3"}, "parameters": {`{ out = "path" }`, `{ out = "text" }`},
			"access.default": {`{ fs = "deny" }`, `{ fs = "allow", net = "allow" }`}, "models": {`["openai/*"]`}, "aliases": {`["alias"]`},
		} {
			all["tools."+t+"."+key] = values
		}
	}
	return all
}()

// someKeys draws a policy about calls.
func someKeys(t *rapid.T) keys {
	k := keys{map[string]string{}, map[string][]string{}}
	names := slices.Sorted(maps.Keys(choices))
	for range rapid.IntRange(2, 10).Draw(t, "keys") {
		k.change(t, names)
	}
	some := rapid.SampledFrom(someTools)
	for range rapid.IntRange(0, 4).Draw(t, "lists") {
		key := "authorities." + rapid.SampledFrom(stages).Draw(t, "stage") + "." + rapid.SampledFrom([]string{"allow", "deny", "deny"}).Draw(t, "list")
		k.lists[key] = rapid.SliceOfNDistinct(some, 1, 3, rapid.ID[string]).Draw(t, key)
	}
	if rapid.Bool().Draw(t, "exclude") {
		k.lists["gate.exclude"] = rapid.SliceOfNDistinct(some, 1, 2, rapid.ID[string]).Draw(t, "excluded")
	}
	if rapid.Bool().Draw(t, "hooks") {
		k.lists["hooks.before_tool_call"] = rapid.SliceOfNDistinct(rapid.SampledFrom(someHooks), 1, 3, rapid.ID[string]).Draw(t, "before")
	}
	return k
}

// change gives one key another value, or none.
func (k keys) change(t *rapid.T, names []string) {
	name := rapid.SampledFrom(names).Draw(t, "key")
	if v := rapid.SampledFrom(append([]string{""}, choices[name]...)).Draw(t, "value"); v == "" {
		delete(k.values, name)
	} else {
		k.values[name] = v
	}
}

// changed differs in a few keys and lists.
func (k keys) changed(t *rapid.T) keys {
	out := k.clone()
	names := slices.Sorted(maps.Keys(k.values)) // most often those that there are
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		if len(names) == 0 || rapid.Bool().Draw(t, "any key") {
			out.change(t, slices.Sorted(maps.Keys(choices)))
		} else {
			out.change(t, names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.lists)) {
		l := out.lists[name]
		switch rapid.SampledFrom([]string{"", "", "gone", "fewer", "other order"}).Draw(t, name) {
		case "gone":
			delete(out.lists, name)
		case "fewer":
			out.lists[name] = l[:max(len(l)-1, 1)]
		case "other order":
			slices.Reverse(l)
		}
	}
	return out
}

// narrowed differs by restrictions alone.
func (k keys) narrowed(t *rapid.T) keys {
	out := k.clone()
	some := rapid.SampledFrom(someTools)
	for range rapid.IntRange(1, 3).Draw(t, "restrictions") {
		table := "tools." + rapid.SampledFrom(namedTools).Draw(t, "tool") + "."
		switch rapid.IntRange(0, 6).Draw(t, "restriction") {
		case 0:
			name := "authorities." + rapid.SampledFrom(stages).Draw(t, "stage") + ".deny"
			if x := some.Draw(t, "denied"); !slices.Contains(out.lists[name], x) {
				out.lists[name] = append(out.lists[name], x)
			}
		case 1:
			out.values["gate.strict"] = "true"
		case 2: // a hook that runs last
			if list := out.lists["hooks.before_tool_call"]; !slices.Contains(list, someHooks[0]) {
				out.lists["hooks.before_tool_call"] = append(list, someHooks[0])
			}
		case 3:
			for _, name := range []string{"limits.pids", table + "constraints.max_invocations"} {
				if out.values[name] != "" {
					out.values[name] = "1"
				}
			}
		case 4:
			if out.values["approvals.security"] != "" {
				out.values["approvals.security"] = `"deny"`
			}
		case 5:
			if list := out.lists["gate.exclude"]; len(list) > 0 {
				out.lists["gate.exclude"] = list[1:]
			}
		case 6:
			if out.values["gate.allow_parent_access"] != "" {
				out.values["gate.allow_parent_access"] = "false"
			}
		}
	}
	return out
}

// judged is a policy that has been loaded: its manifest, and an engine for calls.
type judged struct {
	*tool.Engine
	manifest *manifest.Manifest
}

// load loads a policy, and skips the test if it has an error.
func (k keys) load(t *rapid.T, dir string) *judged {
	file := filepath.Join(dir, "p.toml")
	childtest.Must(t, os.WriteFile(file, []byte(k.text()), 0o600))
	o := policyload.Options{Files: []string{file}, Dir: dir, Workspace: dir, NoDetect: true, Reads: true, Snapshot: hostfs.NewSnapshot()}
	m, err := load.Generate(o)
	if err != nil {
		t.Skip(err)
	}
	text, err := m.JSON()
	childtest.Must(t, err)
	m, err = manifest.Parse(text)
	childtest.Must(t, err)
	c, err := o.Load("")
	if err != nil {
		t.Skip(err)
	}
	e, err := host.NewEngine(&o, c, nil, "", true)
	childtest.Must(t, err)
	return &judged{e, m}
}

// someCalls draws calls.
func someCalls(t *rapid.T) (all []*gate.Call) {
	names := []string{"a", "b", "c_1", "c_2", "mcp__s__x", "mcp__s__y", "mcp__t__x", "Bash", "read", "other", "alias"}
	arguments := []map[string]any{
		{},
		{"path": "src/x"},
		{"path": "/etc/passwd"},
		{"path": "../x"},
		{"out": "/etc/x"},
		{"command": "ls src"},
		{"cmd": "curl https://a.com"},
		{"command": "echo $((1+"},
		{"url": "https://a.com/"},
		{"text": "x"},
	}
	for range 20 {
		call := map[string]any{
			"id": "1", "tool": rapid.SampledFrom(names).Draw(t, "tool"), "arguments": rapid.SampledFrom(arguments).Draw(t, "arguments"),
			"agent": rapid.SampledFrom([]string{"", "r", "q"}).Draw(t, "agent"), "provider": rapid.SampledFrom([]string{"", "openai", "x"}).Draw(t, "provider"),
			"group": rapid.SampledFrom([]string{"", "f"}).Draw(t, "group"), "depth": rapid.IntRange(0, 3).Draw(t, "depth"), "owner": rapid.Bool().Draw(t, "owner"),
		}
		text, err := json.Marshal(call)
		childtest.Must(t, err)
		c, _, err := gate.Parse(text)
		childtest.Must(t, err)
		all = append(all, c)
	}
	return all
}

// outcome is what happens to a call: a rank of the answers, how often it may be made, and the hooks that run before it.
type outcome struct {
	rank  int
	times int // 0: as often as it likes
	hooks []string
	why   string

	hidden bool // the caller doesn't see the tool
}

func (j *judged) outcome(t *rapid.T, c *gate.Call) outcome {
	a, err := j.Judge(c)
	childtest.Must(t, err)
	s := j.Settings(c)
	o := outcome{rank: slices.Index([]string{gate.Deny, gate.Ask, gate.Allow}, a.Decision), times: s.MaxInvocations, why: a.Reason + ": " + a.Message}
	o.hidden = slices.Contains([]string{gate.ReasonNotVisible, visibility.OwnerOnly, string(policy.Constraint)}, a.Reason)
	if a.Decision == gate.Ask {
		approvals := j.Set.Approvals(c.Agent)
		if answer, _ := approvals.Fallback(false); !approvals.Given {
			o.rank = 0 // nobody is asked
		} else if answer == toolset.Run {
			o.rank = 1 // without an answer it runs; the rank of one that's asked about stays below that of one that just runs
		}
	}
	for _, l := range j.Set.Layers {
		for _, h := range l.Before {
			if h.For(c.Tool, c.Bare) {
				o.hooks = append(o.hooks, fmt.Sprint(h.Command))
			}
		}
	}
	return o
}

// The codes of what shows a widening.
var (
	ofVisibility = []string{"tool.visible.widened", "tool.added", "tool.added.high-risk", "constraint.removed", "limit.raised"}
	ofAnswers    = []string{
		"gate.weakened", "approval.weakened", "constraint.removed", "tool.exec.widened", "tool.network.widened", "tool.filesystem.read.widened",
		"tool.filesystem.write.widened", "tool.environment.widened", "tool.added", "tool.added.high-risk",
	}
	ofTimes = []string{"limit.raised", "constraint.removed", "tool.added", "tool.added.high-risk"}
	ofHooks = []string{"hook.removed", "tool.added", "tool.added.high-risk"}
)

// wider says what only the second outcome permits, and the codes of which a widening has one.
func (o outcome) wider(new outcome) (why string, codes []string) {
	switch {
	case new.rank > o.rank && o.hidden:
		return fmt.Sprintf("it isn't seen (%s), and then it is (%s)", o.why, new.why), ofVisibility
	case new.rank > o.rank:
		return fmt.Sprintf("it's denied or asked about (%s), and then less so (%s)", o.why, new.why), ofAnswers
	case new.rank == 0:
		return "", nil
	case o.times > 0 && (new.times == 0 || new.times > o.times):
		return "it may be made more often", ofTimes
	}
	for _, h := range o.hooks {
		if !slices.Contains(new.hooks, h) {
			return "hook " + h + " doesn't run any more", ofHooks
		}
	}
	return "", nil
}

// Every widening that random calls show is found.
func TestVerifyFindsWideningsOfCalls(t *testing.T) {
	dir, found := folder(t), 0
	rapid.Check(t, func(t *rapid.T) {
		a := someKeys(t)
		b := a.changed(t)
		calls := someCalls(t)
		one, other := a.load(t, dir), b.load(t, dir)
		found += checkWidenings(t, one, other, calls, a.text()+"---\n"+b.text())
		found += checkWidenings(t, other, one, calls, b.text()+"---\n"+a.text())
	})
	if found == 0 {
		t.Error("no random call shows a widening")
	}
}

// checkWidenings returns how many calls show a widening.
func checkWidenings(t *rapid.T, old, new *judged, calls []*gate.Call, texts string) (found int) {
	r, err := manifest.Verify(old.manifest, new.manifest)
	childtest.Must(t, err)
	for _, c := range calls {
		why, codes := old.outcome(t, c).wider(new.outcome(t, c))
		if why == "" {
			continue
		}
		found++
		if !slices.ContainsFunc(r.Widenings, func(w manifest.Widening) bool { return slices.Contains(codes, w.Code) }) {
			t.Fatalf("%+v with %s: %s, and there's none of %q in %+v\n%s", c, c.Arguments, why, codes, r.Widenings, texts)
		}
	}
	return found
}

// A policy that only restricts more is no widening.
func TestVerifyReportsNoNarrowingOfCalls(t *testing.T) {
	dir := folder(t)
	rapid.Check(t, func(t *rapid.T) {
		k := someKeys(t)
		narrowed := k.narrowed(t)
		r, err := manifest.Verify(k.load(t, dir).manifest, narrowed.load(t, dir).manifest)
		childtest.Must(t, err)
		if len(r.Widenings) > 0 {
			t.Fatalf("a widening: %+v\n%s\n---\n%s", r.Widenings[0], k.text(), narrowed.text())
		}
	})
}

func folder(t *testing.T) string {
	dir := childtest.TempDir(t)
	dir = filepath.Join(dir, "w")
	childtest.Must(t, os.MkdirAll(filepath.Join(dir, "src"), 0o755))
	return dir
}
