//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const toolPolicy = `version = 1
name = "tools"
workspace = "workspace"
[access]
default = { net = "deny", commands = "allow", env = "allow" }
[[access.fs]]
path = "."
read = true
write = true
[groups]
shown = ["say", "each", "cat"]
[authorities]
agent.coder = { allow = ["group:shown"] }
[tools.say]
command = ["printf", "%s", "{text}"]
parameters = { text = "text" }
[tools.each]
command = ["printf", "%s\\n--\\n", "{text*}"]
parameters = { text = "text" }
[tools.cat]
kind = "read"
command = ["cat", "--", "{name}"]
parameters = { name = "text" }
[tools.open]
kind = "read"
command = ["cat", "--", "{path}"]
[tools.change]
kind = "modify"
command = ["touch", "--", "{path}"]
[tools.flood]
command = ["sh", "-c", "echo begin; head -c 3000000 /dev/zero; echo begin >&2; exit 3"]
[tools.input]
command = ["sh", "-c", "touch ran; cat; echo end"]
[tools.never]
command = ["touch", "ran"]
constraints.forbidden = true
[tools.asked]
command = ["touch", "ran"]
ask = "always"
[tools.number]
command = ["printf", "%s", "{n}"]
schema = { type = "object", properties = { n = { type = "integer", minimum = 1 } }, required = ["n"] }
[tools.missing]
command = ["/nonexistent/program"]
[tools.context]
command = ["sh", "-c", "cat $TOOLGUARD_CONTEXT; echo x >$TOOLGUARD_CONTEXT; chmod 777 $TOOLGUARD_CONTEXT; truncate -s 0 $TOOLGUARD_CONTEXT; sh -c 'exec cat $TOOLGUARD_CONTEXT'"]
`

// toolBackend is the backend of these tests: a guest has its own.
func toolBackend() string {
	if inGuest {
		return "auto"
	}
	return "landlock"
}

// tools makes the policy and what its tools work on.
func (p fixture) tools(t *testing.T) {
	t.Helper()
	p.write(t, "data.txt", "data\n")
	outside := filepath.Join(filepath.Dir(p.workspace), "outside.txt")
	must(t, os.WriteFile(outside, []byte("outside\n"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(p.workspace, "link.txt")))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(p.workspace), "tools.toml"), []byte(toolPolicy), 0o644))
	p.own(t)
}

// toolRun runs a tool with arguments.
func (p fixture) toolRun(t *testing.T, arguments string, flags ...string) outcome {
	t.Helper()
	all := []string{binary, "tool", "run", "--quiet", "--policy", "../tools.toml", "--backend", toolBackend()}
	if p.user.ID == 0 {
		all = append(all, "--daemon", "none")
	}
	cmd := p.command(append(all, flags...)...)
	cmd.Stdin = strings.NewReader(arguments)
	return run(t, cmd)
}

// ran reports whether a tool ran that makes a file.
func (p fixture) ran(t *testing.T) bool {
	t.Helper()
	err := os.Remove(filepath.Join(p.workspace, "ran"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

// quotings are texts that a shell, or a program that takes them for options, would do something with.
func quotings() (texts []string) {
	parts := []string{"$(touch ran)", "`touch ran`", ";touch ran", "|touch ran", "&touch ran", "&&touch ran", "\ntouch ran\n", ">ran", "{text}", "$HOME", "~", "*", "{a,b}", "%s%n", "\\"}
	around := [][2]string{{"", ""}, {"'", "'"}, {`"`, `"`}, {"$'", "'"}, {"' ", " '"}, {`" `, ` "`}, {"'\"'\"'", ""}, {`\`, ""}, {"x ", ""}, {"(", ")"}, {"<<E\n", "\nE\n"}, {"#", "\n"}, {"é\u202e", "\x07"}, {"$(", ")"}}
	for _, part := range parts {
		for _, a := range around {
			texts = append(texts, a[0]+part+a[1])
		}
	}
	return texts
}

// TestArgumentsAreElements gives tools 200 texts that a shell would interpret: each is one element of the command line, unchanged.
func TestArgumentsAreElements(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		texts := quotings()
		if len(texts) < 200 {
			t.Fatalf("%d texts", len(texts))
		}
		arguments, err := json.Marshal(map[string]any{"text": texts})
		must(t, err)
		o := p.toolRun(t, string(arguments), "each")
		if want := strings.Join(texts, "\n--\n") + "\n--\n"; o.code != 0 || o.stdout != want {
			t.Errorf("status %d: %q\nwant %q\n%s", o.code, o.stdout, want, o.stderr)
		}
		for i := 0; i < len(texts); i += 10 {
			arguments, err := json.Marshal(map[string]any{"text": texts[i]})
			must(t, err)
			if o := p.toolRun(t, string(arguments), "say"); o.code != 0 || o.stdout != texts[i] {
				t.Errorf("%q: status %d, %q, %s", texts[i], o.code, o.stdout, o.stderr)
			}
		}
		if p.ran(t) {
			t.Error("something ran that no policy names")
		}
	})
}

// TestRejectedCalls makes calls that don't run: 125, nothing on standard output, and a message.
func TestRejectedCalls(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		denied := 0
		for _, row := range []struct{ tool, arguments, want string }{
			{"say", `{"text":"-v"}`, `would be an option`},
			{"say", `{"text":"--help"}`, `would be an option`},
			{"each", `{"text":["a","-x"]}`, `would be an option`},
			{"say", `{"text":"a","more":"b"}`, `may not have "more"`},
			{"say", `{"text":"a","text":"b"}`, "duplicate"},
			{"say", `{"text":"a","Text":"b"}`, "Text"},
			{"say", `{"text":["a"]}`, "must be string"},
			{"say", `{"text":"a\u0000b"}`, "NUL"},
			{"say", "{\"text\":\"a\xff\"}", "UTF-8"},
			{"say", `{"text":"` + strings.Repeat("a", 5000) + `"}`, "more than 4096"},
			{"say", `{"text":"` + strings.Repeat("a", 9<<20) + `"}`, "larger than"},
			{"say", `{}`, `must have "text"`},
			{"say", `[]`, "object"},
			{"say", ``, "arguments"},
			{"number", `{"n":0}`, "less than 1"},
			{"number", `{"n":"1; touch ran"}`, "must be integer"},
			{"never", `{}`, "tools: the policy forbids it to every model (tools.never.constraints.forbidden at ../tools.toml:"},
			{"asked", `{}`, "a person has to approve the call"},
			{"open", `{"path":"../outside.txt"}`, "path escapes"},
			{"unknown", `{}`, "there is no local tool unknown"},
			{"missing", `{}`, "no such command"},
		} {
			flags := []string{"--events", p.home + "/events", row.tool}
			if row.want == "path escapes" {
				row.want = "outside.txt is denied"
			}
			for _, json := range []bool{false, true} {
				if json {
					flags = append(flags, "--json")
				}
				if o := p.toolRun(t, row.arguments, flags...); o.code != 125 || o.stdout != "" || !strings.Contains(o.stderr, row.want) || p.ran(t) {
					t.Errorf("%s %.60s: status %d, %q, %s", row.tool, row.arguments, o.code, o.stdout, o.stderr)
				}
				if row.tool == "missing" {
					continue // it was the start that failed
				}
				denied++
				if list := events(t, p.home+"/events", "tool_denied"); len(list) != denied || list[denied-1].Target != row.tool || list[denied-1].Reason == "" ||
					list[denied-1].Policy.Name != "tools" || list[denied-1].Policy.UID == "" ||
					row.tool == "never" && list[denied-1].Rule != "tools.never.constraints.forbidden" {
					t.Fatalf("%s %.60s: %d calls have the events %v", row.tool, row.arguments, denied, list)
				}
			}
		}
		o := p.toolRun(t, `{"n":7}`, "--events", p.home+"/events", "number")
		if list := events(t, p.home+"/events", "tool_denied"); o.code != 0 || o.stdout != "7" || len(list) != denied {
			t.Errorf("a valid call: %+v, events %v", o, list)
		}
	})
}

// TestOwnRecord has a tool change the file to which its own events go: the gate denies it.
func TestOwnRecord(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		if o := p.toolRun(t, `{"path":"other.jsonl"}`, "--events", "events.jsonl", "--allow-degraded=toolguard", "change"); o.code != 0 {
			t.Fatalf("another file: %+v", o)
		}
		o := p.toolRun(t, `{"path":"events.jsonl"}`, "--events", "events.jsonl", "--allow-degraded=toolguard", "change")
		list := events(t, filepath.Join(p.workspace, "events.jsonl"), "tool_denied")
		if o.code != 125 || len(list) != 1 || !strings.HasPrefix(list[0].Rule, "toolguard.") || !strings.Contains(o.stderr, "events.jsonl is denied") {
			t.Errorf("%+v, with the events %v", o, list)
		}
	})
}

// TestKernelDeniesPaths runs a tool on paths that nothing but the kernel judges.
func TestKernelDeniesPaths(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		if o := p.toolRun(t, `{"name":"data.txt"}`, "cat"); o.code != 0 || o.stdout != "data\n" {
			t.Errorf("in the workspace: %+v", o)
		}
		outside := filepath.Join(filepath.Dir(p.workspace), "outside.txt")
		if o := run(t, p.command("cat", outside)); o.stdout != "outside\n" {
			t.Fatalf("without toolguard: %+v", o)
		}
		for _, name := range []string{"../outside.txt", outside, "link.txt", "./x/../../outside.txt", "/proc/self/root" + outside, "/proc/self/cwd/../outside.txt"} {
			arguments, err := json.Marshal(map[string]string{"name": name})
			must(t, err)
			if o := p.toolRun(t, string(arguments), "cat"); o.code != 1 || strings.Contains(o.stdout, "outside") || !strings.Contains(o.stderr, "cat:") {
				t.Errorf("%s: %+v", name, o)
			}
		}
	})
}

// TestToolOutput is about the output of a tool: the command's own, or as JSON with at most 1 MiB of each stream. Its input is empty.
func TestToolOutput(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		type result struct {
			OK, Truncated  bool
			Status         int
			Denials        []struct{ Resource, Action, Target string }
			Stdout, Stderr string
		}
		asJSON := func(arguments, tool string, code int) (r result) {
			o := p.toolRun(t, arguments, tool, "--json")
			if err := json.Unmarshal([]byte(o.stdout), &r); err != nil || o.code != code || r.Status != code || r.OK != (code == 0) || r.Denials == nil {
				t.Fatalf("%s: status %d, %v: %.500s", tool, o.code, err, o.stdout+o.stderr)
			}
			return r
		}
		if r := asJSON(`{"text":"é\n"}`, "say", 0); r.Stdout != "é\n" || r.Stderr != "" || r.Truncated {
			t.Errorf("%+v", r)
		}
		if r := asJSON(`{"name":"../outside.txt"}`, "cat", 1); r.Stdout != "" || !strings.Contains(r.Stderr, "cat: ../outside.txt: ") || r.Truncated {
			t.Errorf("%+v", r)
		}
		r := asJSON(`{}`, "flood", 3)
		if len(r.Stdout) != 1<<20 || !strings.HasPrefix(r.Stdout, "begin\n") || r.Stderr != "begin\n" || !r.Truncated {
			t.Errorf("%d and %d bytes, truncated: %t", len(r.Stdout), len(r.Stderr), r.Truncated)
		}
		if o := p.toolRun(t, `{}`, "flood"); o.code != 3 || len(o.stdout) != 3000000+len("begin\n") {
			t.Errorf("status %d, %d bytes", o.code, len(o.stdout))
		}
		if o := p.toolRun(t, `{}`, "input"); o.stdout != "end\n" || !p.ran(t) {
			t.Errorf("%+v", o)
		}
	})
}

// TestToolsOfAgents runs tools on behalf of agents: only those that the agent sees. A person may run a command with the grants of any.
func TestToolsOfAgents(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		exec := func(flags ...string) outcome {
			return run(t, p.confined(append([]string{"--policy", "../tools.toml", "--backend", toolBackend()}, flags...), "touch", "ran"))
		}
		const invisible = "tools.agent (coder): the list of allowed tools doesn't have it (authorities.agent.coder.allow at ../tools.toml:"
		if o := p.toolRun(t, `{"text":"x"}`, "say", "--agent", "coder"); o.stdout != "x" {
			t.Errorf("visible: %+v", o)
		}
		if o := p.toolRun(t, `{}`, "input", "--agent", "coder"); o.code != 125 || !strings.Contains(o.stderr, invisible) || p.ran(t) {
			t.Errorf("invisible: %+v", o)
		}
		if o := exec("--tool", "say", "--agent", "coder"); o.code != 0 || !p.ran(t) {
			t.Errorf("exec, visible: %+v", o)
		}
		o := exec("--tool", "input", "--agent", "coder")
		if o.code != 125 || !strings.Contains(o.stderr, invisible) || !strings.Contains(o.stderr, "a person can still run") || p.ran(t) {
			t.Errorf("exec, invisible: %+v", o)
		}
		if o := exec("--tool", "input", "--agent", "coder", "--dry-run"); o.code != 125 || o.stdout != "" {
			t.Errorf("exec --dry-run, invisible: %+v", o)
		}
		for _, tool := range []string{"input", "never"} {
			if o := exec("--tool", tool); o.code != 0 || !p.ran(t) {
				t.Errorf("exec of a person, %s: %+v", tool, o)
			}
		}
	})
}

// TestCountedCalls runs a tool that may run once in an invocation, and another one only after it.
func TestCountedCalls(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		file := filepath.Join(filepath.Dir(p.workspace), "tools.toml")
		const counted = "[tools.once]\ncommand = [\"touch\", \"ran\"]\nconstraints.max_invocations = 1\n[tools.after]\ncommand = [\"touch\", \"ran\"]\nconstraints.only_after = [\"once\"]\n"
		must(t, os.WriteFile(file, []byte(toolPolicy+counted), 0o644))
		for i, row := range []struct {
			flags, want string // "" if it runs
		}{
			{"once", "the call must have an invocation"},
			{"after --invocation a", "only_after"},
			{"once --invocation a", ""},
			{"once --invocation a", "max_invocations"},
			{"after --invocation a", ""},
			{"after --invocation b", "only_after"},
			{"once --invocation b", ""},
		} {
			o := p.toolRun(t, `{}`, strings.Fields(row.flags)...)
			if ran := p.ran(t); ran != (row.want == "") || ran != (o.code == 0) || !strings.Contains(o.stderr, row.want) {
				t.Errorf("%d: %s: %+v", i, row.flags, o)
			}
		}
	})
}

// TestHooksOfTools runs the hooks before a tool, which may block it or change its arguments. One after it isn't run by this command, so nothing starts.
func TestHooksOfTools(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		file := filepath.Join(filepath.Dir(p.workspace), "tools.toml")
		for _, row := range []struct{ key, answer, stdout, stderr string }{
			{"before", `{}`, "x", ""},
			{"before", `{"arguments":{"text":"y"}}`, "y", ""},
			{"before", `{"arguments":{"text":"-y"}}`, "", "would be an option"},
			{"before", `{"block":true,"reason":"not today"}`, "", "not today"},
			{"before", `{"ask":true,"reason":"who knows"}`, "", "a person has to approve the call"},
			{"before", `nonsense`, "", "hook"},
			{"after", `{}`, "", "tool run doesn't enforce hooks.after_tool_call"},
		} {
			hook := fmt.Sprintf("[[hooks.%s_tool_call]]\ncommand = [\"printf\", \"%%s\", %q]\n", row.key, row.answer)
			must(t, os.WriteFile(file, []byte(toolPolicy+strings.ReplaceAll(hook, "%%", "%")), 0o644))
			o := p.toolRun(t, `{"text":"x"}`, "say")
			if o.stdout != row.stdout || (o.code == 0) != (row.stderr == "") || row.stderr != "" && o.code != 125 || !strings.Contains(o.stderr, row.stderr) {
				t.Errorf("%s %s: %+v", row.key, row.answer, o)
			}
		}
	})
}

// TestNothingRunsUnenforced: a tool doesn't run where the backend can't enforce its policy.
func TestNothingRunsUnenforced(t *testing.T) {
	if inGuest {
		t.Skip("needs a backend that can't enforce a rule")
	}
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		file := filepath.Join(filepath.Dir(p.workspace), "tools.toml")
		must(t, os.WriteFile(file, []byte(strings.Replace(toolPolicy, "[groups]", "[[access.fs]]\npath = \"data.txt\"\n[groups]", 1)), 0o644))
		if o := p.toolRun(t, `{}`, "input"); o.code != 125 || o.stdout != "" || !strings.Contains(o.stderr, "nothing was started") || p.ran(t) {
			t.Errorf("%+v", o)
		}
		if o := p.toolRun(t, `{}`, "input", "--allow-degraded", "fs.2"); o.code != 0 || !p.ran(t) {
			t.Errorf("accepted: %+v", o)
		}
	})
}

// TestContextIsReadOnly reads the description of a tool's access under each backend that doesn't need root: the tool and its children read it, and
// can't change it.
func TestContextIsReadOnly(t *testing.T) {
	backends := []string{"landlock", "bwrap"}
	if inGuest {
		backends = []string{toolBackend()}
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			if backend == "bwrap" {
				needs(t, "bwrap")
			}
			eachUser(t, func(t *testing.T, p fixture) {
				p.tools(t)
				o := p.toolRun(t, `{}`, "context", "--backend", backend)
				decoder := json.NewDecoder(strings.NewReader(o.stdout))
				for i := range 2 {
					var x struct {
						Root, Action, Tool string
						Access             map[string]any
					}
					if err := decoder.Decode(&x); err != nil {
						t.Fatalf("%d: %v: %+v", i, err, o)
					}
					if x.Root != p.workspace || x.Action != "run" || x.Tool != "context" || len(x.Access) != 4 {
						t.Errorf("%d: %+v", i, x)
					}
					for name, list := range x.Access {
						if list == nil {
							t.Errorf("%s is null", name)
						}
					}
				}
				if decoder.More() || strings.Count(o.stderr, "ermitted")+strings.Count(o.stderr, "ermission denied") < 3 {
					t.Errorf("changed: %s", o.stderr)
				}
			})
		})
	}
}

// TestCheckInSession asks check and explain in a session, without a policy: they answer by the session's own.
func TestCheckInSession(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.tools(t)
		file := filepath.Join(filepath.Dir(p.workspace), "tools.toml")
		text := fmt.Sprintf("%s[tools.me]\naccess.fs = [{ path = %q, read = true, execute = true }]\n", toolPolicy, filepath.Dir(binary))
		must(t, os.WriteFile(file, []byte(text), 0o644))
		ask := func(argv ...string) outcome {
			return run(t, p.confined([]string{"--policy", "../tools.toml", "--backend", toolBackend(), "--report", "never", "--tool", "me"}, argv...))
		}
		const note = "the policy is that of this session, for the tool me (TOOLGUARD_CONTEXT)"
		if o := ask(binary, "check", "fs", "update", "data.txt"); o.code != 0 || !strings.HasPrefix(o.stdout, "allow") || !strings.Contains(o.stderr, note) {
			t.Errorf("allowed: %+v", o)
		}
		for _, command := range []string{"check", "explain"} {
			o := ask(binary, command, "fs", "read", "../outside.txt")
			if o.code != 1 || !strings.Contains(o.stdout, "granted:\n  read+create+update+delete .\n  read+execute "+filepath.Dir(binary)) || !strings.Contains(o.stderr, note) {
				t.Errorf("%s, denied: %+v", command, o)
			}
			if _, grants, _ := strings.Cut(o.stdout, "granted:\n"); strings.Count(grants, "\n") != 20 {
				t.Errorf("%s names %d grants", command, strings.Count(grants, "\n"))
			}
			if o := ask(binary, command, "--json", "fs", "read", "../outside.txt"); !strings.Contains(o.stdout, `"grants": [`) {
				t.Errorf("%s --json: %+v", command, o)
			}
		}
		if o := ask(binary, "check", "--tool", "say", "fs", "read", "data.txt"); o.code != 2 || !strings.Contains(o.stderr, "for the tool me") {
			t.Errorf("another tool: %+v", o)
		}
		if o := ask("sh", "-c", "TOOLGUARD_CONTEXT=/proc/self/fd/99 exec "+binary+" check fs read data.txt"); o.code != 2 || !strings.Contains(o.stderr, "name one (--policy)") {
			t.Errorf("a context that can't be read: %+v", o)
		}
		if o := run(t, p.confined([]string{"--policy", "../tools.toml", "--backend", toolBackend()}, "env")); strings.Contains(o.stdout, "TOOLGUARD_CONTEXT") || o.code != 0 {
			t.Errorf("without a tool: %+v", o)
		}
	})
}
