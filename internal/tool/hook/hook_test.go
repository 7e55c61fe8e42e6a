package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

var environment = []string{"PATH=/usr/bin:/bin", "GREETING=hello"}

// script makes a hook that is a program for sh.
func script(t *testing.T, text string) *toolset.Hook {
	t.Helper()
	dir := t.TempDir()
	childtest.Must(t, os.WriteFile(filepath.Join(dir, "check-call"), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return hookOf(dir, "./check-call")
}

func hookOf(dir string, argv ...string) *toolset.Hook {
	return &toolset.Hook{
		Command: argv, Dir: dir, Timeout: 20 * time.Second, Layer: &toolset.Layer{},
		Rule: toolset.Rule{ID: "hooks.before_tool_call", At: policy.Position{File: "p.toml", Line: 7}},
	}
}

var call = Before{
	ID: "c1", Tool: "Bash", Arguments: json.RawMessage(`{"command":"ls <x>","n":1}`), Cwd: "/w", Agent: "a", Session: "s", Invocation: "i", Risk: "high",
}

func accept(json.RawMessage) error { return nil }

// TestAnswers checks every answer of one program: what isn't exactly one of the forms blocks, with a reason.
func TestAnswers(t *testing.T) {
	same := string(call.Arguments)
	for _, x := range []struct {
		name, script string
		arguments    string // with which the call goes on
		block        string // in the text of the block
		ask          string // in that of the ask
	}{
		{"nothing against it", `echo '{}'`, same, "", ""},
		{"unread input", `exec <&-; echo ' {} '`, same, "", ""},
		{"rewrite", `echo '{"arguments":{"command":"pwd","m":{"x":null}}}'`, `{"command":"pwd","n":1,"m":{"x":null}}`, "", ""},
		{"rewrite to the same", `echo '{"arguments":{ "n" : 1 }}'`, same, "", ""},
		{"no rewrite", `echo '{"arguments":{}}'`, same, "", ""},
		{"block", `echo '{"block":true,"reason":"not on\u001b[2J Friday"}'`, same, `blocked by hook check-call: not on\x1b[2J Friday`, ""},
		{"block without a reason", `echo '{"block":true}'`, same, "tool call blocked by hook check-call", ""},
		{"ask", `echo '{"ask":true,"reason":"sure?"}'`, same, "", "hook check-call asks for an approval: sure?"},
		{"ask with a rewrite", `echo '{"ask":true,"arguments":{"n":2}}'`, `{"command":"ls <x>","n":2}`, "", "asks for an approval"},

		{"empty", `exit 0`, same, "its answer is empty", ""},
		{"blank", `echo`, same, "its answer is empty", ""},
		{"no JSON", `echo ok`, same, "not valid JSON", ""},
		{"no object", `echo '[]'`, same, "no object", ""},
		{"null", `echo null`, same, "no object", ""},
		{"cut", `printf '{"ask":true'`, same, "not valid JSON", ""},
		{"two objects", `echo '{}'; echo '{}'`, same, "more after its end", ""},
		{"text after it", `echo '{} ok'`, same, "valid", ""},
		{"a key twice", `echo '{"arguments":{"n":1,"n":2}}'`, same, "duplicate", ""},
		{"keys that differ in case", `echo '{"Block":true,"block":true}'`, same, "differ in case alone", ""},
		{"unknown key", `echo '{"blocked":false}'`, same, `unknown key "blocked"`, ""},
		{"key in another case", `echo '{"BLOCK":true}'`, same, `unknown key "BLOCK"`, ""},
		{"block is no bool", `echo '{"block":"true"}'`, same, "block is something else than true", ""},
		{"block is false", `echo '{"block":false}'`, same, "block is something else than true", ""},
		{"reason is no text", `echo '{"block":true,"reason":1}'`, same, "reason is no text", ""},
		{"a reason alone", `echo '{"reason":"x"}'`, same, "reason without", ""},
		{"block and ask", `echo '{"block":true,"ask":true}'`, same, "both block and ask", ""},
		{"block and arguments", `echo '{"block":true,"arguments":{}}'`, same, "both block and arguments", ""},
		{"arguments are no object", `echo '{"arguments":[1]}'`, same, "arguments: it's no object", ""},
		{"arguments are null", `echo '{"arguments":null}'`, same, "arguments: it's no object", ""},
		{"an argument in another case", `echo '{"arguments":{"Command":"pwd"}}'`, same, "differ in case alone", ""},
		{"not UTF-8", `printf '{"block":true,"reason":"\377"}'`, same, "valid", ""},
		{"exit status", `echo '{}'; echo "no $(printf '\033')[1m database" >&2; exit 3`, same, `exit status 3, with the message: no \x1b[1m database`, ""},
		{"signal", `echo '{}'; kill -9 $$`, same, "signal killed", ""},
		{"too large", `echo '{}'; yes`, same, "larger than 1 MiB", ""},
		{"much on stderr", `yes | head -c 4000000 >&2; echo '{}'`, same, "", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := script(t, x.script)
			r := &Runner{Env: environment}
			v := r.Before(t.Context(), []*toolset.Hook{h}, call, "", accept)
			if string(v.Arguments) != x.arguments || v.Rewritten != (x.arguments != same) || v.Denied != nil {
				t.Errorf("%+v", v)
			}
			switch {
			case x.block == "" && v.Block != nil:
				t.Errorf("blocked: %s", v.Block.Text)
			case x.block != "" && (v.Block == nil || !strings.Contains(v.Block.Text, x.block) || v.Block.Rule.At.Line != 7 || v.Block.Hook != "check-call"):
				t.Errorf("block: %+v", v.Block)
			case x.ask == "" && v.Asks != nil, x.ask != "" && (len(v.Asks) != 1 || !strings.Contains(v.Asks[0].Text, x.ask)):
				t.Errorf("ask: %+v", v.Asks)
			}
		})
	}
}

// TestInput checks what a hook gets: the call, its own folder and toolguard's environment.
func TestInput(t *testing.T) {
	h := script(t, `{ pwd; echo "$GREETING"; ps -o sid= -p $$; echo $$; cat; } > got; echo '{}'`)
	v := (&Runner{Env: environment}).Before(t.Context(), []*toolset.Hook{h}, call, "", accept)
	if v.Block != nil {
		t.Fatal(v.Block.Text)
	}
	text := childtest.ReadFile(t, filepath.Join(h.Dir, "got"))
	lines := strings.SplitN(string(text), "\n", 5)
	dir, err := filepath.EvalSymlinks(h.Dir)
	childtest.Must(t, err)
	want := `{"event":"before_tool_call","id":"c1","tool":"Bash","arguments":{"command":"ls <x>","n":1},"cwd":"/w","agent":"a","session":"s","invocation":"i","risk":"high"}` + "\n"
	if lines[0] != dir || lines[1] != "hello" || strings.TrimSpace(lines[2]) != lines[3] || lines[4] != want {
		t.Errorf("it got\n%s", text)
	}
}

// TestPrograms checks how a program is found, and what is answered if it can't be started.
func TestPrograms(t *testing.T) {
	h := script(t, `echo '{}'`)
	childtest.Must(t, os.WriteFile(filepath.Join(h.Dir, "plain"), []byte("#!/bin/sh\necho '{}'\n"), 0o644))
	childtest.Must(t, os.WriteFile(filepath.Join(h.Dir, "lost"), []byte("#!/none/sh\n"), 0o755))
	for _, x := range []struct{ program, path, want string }{
		{"./check-call", "/bin", ""},
		{filepath.Join(h.Dir, "check-call"), "/bin", ""},
		{"check-call", h.Dir, ""},
		{"check-call", "/bin", "isn't in PATH"},
		{"check-call", ".:/bin", "isn't in PATH"}, // the folder may be one that a session can write
		{"check-call", ":/bin", "isn't in PATH"},
		{"./none", "/bin", "doesn't exist"},
		{"./lost", "/bin", "doesn't exist"},
		{"./plain", "/bin", "chmod +x"},
		{"plain", h.Dir, "isn't in PATH"},
		{".", "/bin", "isn't in PATH"},
		{"./", "/bin", "can't be executed"},
	} {
		v := (&Runner{Env: []string{"PATH=" + x.path}}).Before(t.Context(), []*toolset.Hook{hookOf(h.Dir, x.program)}, call, "", accept)
		if (v.Block == nil) != (x.want == "") || v.Block != nil && (!strings.Contains(v.Block.Text, x.want) || !v.Block.Failed) {
			t.Errorf("%s in %s: %+v", x.program, x.path, v.Block)
		}
	}
}

// TestOrder checks that each hook gets the arguments of the one before it, that the gate sees them first, and what ends the hooks.
func TestOrder(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	note := func(name, answer string) *toolset.Hook {
		return script(t, fmt.Sprintf(`printf '%s %%s\n' "$(cat)" >> %s; echo '%s'`, name, log, answer))
	}
	only := func(h *toolset.Hook, tools string) *toolset.Hook {
		h.Tools = []toolset.Entry{{Text: tools}}
		return h
	}
	denied := errors.New("denied by the gate")
	for _, x := range []struct {
		name  string
		hooks []*toolset.Hook
		want  string // what ran, and what the gate saw
		is    func(v *Verdict) bool
	}{
		{
			"rewrites",
			[]*toolset.Hook{note("a", `{"arguments":{"n":2}}`), note("b", `{"ask":true}`), note("c", `{"arguments":{"command":"pwd"}}`)},
			`a{"command":"ls <x>","n":1} gate{"command":"ls <x>","n":2} b{"command":"ls <x>","n":2} c{"command":"ls <x>","n":2} gate{"command":"pwd","n":2}`,
			func(v *Verdict) bool { return v.Rewritten && len(v.Asks) == 1 && v.Block == nil && v.Denied == nil },
		},
		{
			"into a denied call",
			[]*toolset.Hook{note("a", `{"ask":true}`), note("b", `{"arguments":{"command":"rm"}}`), note("c", `{}`)},
			`a{"command":"ls <x>","n":1} b{"command":"ls <x>","n":1} gate{"command":"rm","n":1}`,
			func(v *Verdict) bool { return errors.Is(v.Denied, denied) && v.RewrittenBy == "check-call" },
		},
		{
			"a block",
			[]*toolset.Hook{note("a", `{"ask":true}`), note("b", `{"block":true}`), note("c", `{"arguments":{"command":"pwd"}}`)},
			`a{"command":"ls <x>","n":1} b{"command":"ls <x>","n":1}`,
			func(v *Verdict) bool { return v.Block != nil && !v.Block.Failed && !v.Rewritten && len(v.Asks) == 1 },
		},
		{
			"a failure",
			[]*toolset.Hook{note("a", `x`), note("b", `{}`)},
			`a{"command":"ls <x>","n":1}`,
			func(v *Verdict) bool { return v.Block != nil && v.Block.Failed },
		},
		{
			"other tools'",
			[]*toolset.Hook{only(note("a", `{"block":true}`), "Read"), only(note("b", `{}`), "ba*")},
			`b{"command":"ls <x>","n":1}`,
			func(v *Verdict) bool { return v.Block == nil },
		},
		{"none", nil, ``, func(v *Verdict) bool { return v.Block == nil && v.Denied == nil && !v.Rewritten }},
	} {
		childtest.Must(t, os.WriteFile(log, nil, 0o600))
		v := (&Runner{Env: environment}).Before(t.Context(), x.hooks, call, "", func(a json.RawMessage) error {
			appendTo(t, log, fmt.Sprintf("gate {\"arguments\":%s}\n", a))
			if strings.Contains(string(a), `"rm"`) {
				return denied
			}
			return nil
		})
		if got := readLog(t, log); got != x.want || !x.is(&v) {
			t.Errorf("%s:\n%s\nwant\n%s\n%+v", x.name, got, x.want, v)
		}
	}
}

func appendTo(t *testing.T, file, text string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	childtest.Must(t, err)
	_, err = f.WriteString(text)
	childtest.Must(t, errors.Join(err, f.Close()))
}

// readLog returns each line's name with the arguments.
func readLog(t *testing.T, file string) string {
	text := childtest.ReadFile(t, file)
	var all []string
	for line := range strings.Lines(string(text)) {
		name, body, _ := strings.Cut(line, " ")
		var b struct{ Arguments json.RawMessage }
		childtest.Must(t, json.Unmarshal([]byte(body), &b))
		all = append(all, name+string(b.Arguments))
	}
	return strings.Join(all, " ")
}

// TestDeadline checks that there is a decision soon after the deadline, and that the processes end, whatever a hook does.
func TestDeadline(t *testing.T) {
	for _, x := range []struct{ name, script, want string }{
		{"slow", `sleep 1000`, "longer than 1s"},
		{"slow after its answer", `echo '{}'; sleep 1000`, "longer than 1s"},
		{"ignores signals", `trap '' TERM INT HUP; sleep 1000; sleep 1000`, "longer than 1s"},
		{"a child of its group", `sleep 1000 & echo '{}'; wait`, "longer than 1s"},
		{"a child in another session", `setsid sleep 1000 & echo $! > other; echo '{}'; wait`, "longer than 1s"},
		{"reads nothing", `exec sleep 1000`, "longer than 1s"},
		{"a child of its group keeps the output", `sleep 1000 & echo $! > pid; echo '{}'`, ""},
		{"a child in another session keeps the output", `setsid sleep 1000 & echo $! > other; sleep 0.2; echo '{}'`, "keeps its output open"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			h := script(t, "echo $$ > pid\n"+x.script)
			h.Timeout = time.Second
			if x.want == "" || strings.Contains(x.want, "output") {
				h.Timeout = 30 * time.Second
			}
			c := call
			c.Arguments = json.RawMessage(`{"x":"` + strings.Repeat("x", 4<<20) + `"}`) // more than a pipe takes
			begun := time.Now()
			v := (&Runner{Env: environment}).Before(t.Context(), []*toolset.Hook{h}, c, "", accept)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if (v.Block == nil) != (x.want == "") || v.Block != nil && !strings.Contains(v.Block.Text, x.want) {
				t.Errorf("%+v", v.Block)
			}
			ended(t, filepath.Join(h.Dir, "pid"))
			kill(filepath.Join(h.Dir, "other"))
		})
	}
}

// TestCancelled checks that the end of a call ends its hook.
func TestCancelled(t *testing.T) {
	h := script(t, `echo $$ > pid; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !exists(filepath.Join(h.Dir, "pid")) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	v := (&Runner{Env: environment}).Before(ctx, []*toolset.Hook{h}, call, "", accept)
	if v.Block == nil || !strings.Contains(v.Block.Text, "the call was cancelled") {
		t.Errorf("%+v", v.Block)
	}
	ended(t, filepath.Join(h.Dir, "pid"))
}

// TestConcurrent checks 64 calls at once, each of which gets its own answer.
func TestConcurrent(t *testing.T) {
	h := script(t, `read -r line; id=${line#*\"id\":\"}; echo "{\"arguments\":{\"id\":\"${id%%\"*}\"}}"`)
	r := &Runner{Env: environment}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			c := call
			c.ID, c.Arguments = fmt.Sprint("c", i), json.RawMessage(`{}`)
			v := r.Before(t.Context(), []*toolset.Hook{h}, c, "", accept)
			if want := fmt.Sprintf(`{"id":"c%d"}`, i); v.Block != nil || string(v.Arguments) != want {
				t.Errorf("%s, want %s: %+v", v.Arguments, want, v.Block)
			}
		})
	}
	all.Wait()
}

// TestMerge checks arguments at their limits.
func TestMerge(t *testing.T) {
	big := `{"x":"` + strings.Repeat("x", maxArguments-100) + `"}`
	for _, x := range []struct{ into, answer, want string }{
		{`{"a":1,"b":{"c":2}}`, `{"arguments":{"b":{"d":3}}}`, `{"a":1,"b":{"d":3}}`},
		{`{}`, `{"arguments":{"a\"<":1}}`, `{"a\"<":1}`},
		{`{"a":1,"A":2}`, `{"arguments":{"a":3}}`, ""},
		{big, `{"arguments":{"y":"` + strings.Repeat("y", 200) + `"}}`, ""},
		{big, `{"arguments":{"x":1}}`, `{"x":1}`},
		{`{"a":1}`, `{"arguments":{"a":` + strings.Repeat("[", 254) + strings.Repeat("]", 254) + `}}`, `{"a":` + strings.Repeat("[", 254) + strings.Repeat("]", 254) + `}`},
	} {
		a, err := parse([]byte(x.answer))
		childtest.Must(t, err)
		got, err := merge(json.RawMessage(x.into), a.arguments)
		if string(got) != x.want && err == nil || (err == nil) != (x.want != "") {
			t.Errorf("%.40s with %.60s: %.60s, %v", x.into, x.answer, got, err)
		}
	}
}
