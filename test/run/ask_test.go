//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// askPolicy lets a session request grants, and run toolguard for that.
const askPolicy = `version = 1
extends = ["preset:git"]
approvals = { security = "allowlist", ask = "on-miss", timeout = "5m" }
[access]
default = { commands = "allow" }
fs = [{ path = %q, read = true, execute = true }]
`

// keys types one key as a person does, who reads first: input answers no prompt within half a second of other input.
func (y *terminal) key(t *testing.T, key, want string) {
	t.Helper()
	time.Sleep(700 * time.Millisecond)
	y.types(t, key, want)
}

// TestAsk: exec --ask asks at the terminal, the command has the terminal otherwise, and nothing within the session can answer.
func TestAsk(t *testing.T) {
	needs(t, "bash")
	for _, u := range users() {
		t.Run(u.Name, func(t *testing.T) {
			p := newFixture(t, u)
			secret := filepath.Join(p.home, "secret")
			must(t, os.WriteFile(secret, []byte("secret text\n"), 0o644))
			p.write(t, "request", fmt.Sprintf("#!/bin/sh\n%s request --why \"for \x1b[2Jtests $1\" fs read %s; echo \"status=$?\"\n", binary, secret))
			policy := filepath.Join(filepath.Dir(p.workspace), "policy.toml")
			must(t, os.WriteFile(policy, fmt.Appendf(nil, askPolicy, filepath.Dir(binary)), 0o644))
			daemon := ""
			if u.ID == 0 {
				daemon = "--daemon none "
			}
			cmd := p.command("bash", "--norc", "--noprofile", "-i")
			cmd.Env = append(cmd.Env, "PS1=prompt> ", "TERM=dumb", "B="+binary)
			y := open(t, cmd)
			y.shows(t, "prompt> ")
			y.types(t, binary+" exec --ask --quiet "+daemon+"--workspace . --policy ../policy.toml -- bash --norc --noprofile -i\n", `bash-[\d.]+[$#] `) // its own prompt
			y.types(t, "cat "+secret+"\n", "Permission denied")

			y.types(t, "./request first\n", `(?s)toolguard asks.*o allow once`)
			if text := y.text(); !strings.Contains(text, `for \x1b[2Jtests`) {
				t.Errorf("the prompt doesn't show the escaped reason: %q", text)
			}
			y.key(t, "\r", "") // decides nothing
			y.key(t, "d", "status=1")

			// From elsewhere, as the same user; from within the session, nobody decides.
			y.types(t, "./request first\n", "denied by the user") // the same again is answered, and nobody is asked
			y.types(t, "./request second\n", `(?s)toolguard asks.*o allow once`)
			list := run(t, p.command(binary, "approvals", "list", "--json"))
			_, id, _ := strings.Cut(list.stdout, `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			if list.code != 0 || len(id) != 32 {
				t.Fatalf("%+v", list)
			}
			if out := run(t, p.confined([]string{"--workspace", ".", "--policy", "../policy.toml"}, binary, "approvals", "allow", id)); out.code == 0 {
				t.Errorf("a confined process decided: %+v", out)
			}
			if out := run(t, p.command(binary, "approvals", "allow", id[:8])); out.code != 0 || !strings.Contains(out.stdout, "allow-once") {
				t.Errorf("%+v", out)
			}
			y.shows(t, "approval "+id+": allow-once, by user")
			y.shows(t, "status=0")
			if out := run(t, p.command(binary, "approvals", "deny", id)); out.code != 1 {
				t.Errorf("a second decision: %+v", out)
			}

			// The session's commands can be stopped, and toolguard with them.
			y.types(t, "suspend\n", "(?s)Stopped.*prompt> ")
			y.types(t, "echo outer shell\n", "\router shell|\nouter shell")
			y.types(t, "fg\n", "fg")
			y.types(t, "stty size; exit 7\n", `(?s)\d+ \d+.*prompt> `)
			y.types(t, "echo code=$?\n", "code=7")
			if u.ID == 0 { // what was given for the next start
				y.types(t, binary+" exec --quiet "+daemon+"--workspace . --policy ../policy.toml -- cat "+secret+"\n", "secret text")
			}
		})
	}
}

// TestAskWithoutTerminal names what to do instead.
func TestAskWithoutTerminal(t *testing.T) {
	p := newFixture(t, users()[0])
	cmd := p.command(binary, "exec", "--ask", "--", "true")
	cmd.SysProcAttr.Setsid = true
	if out := run(t, cmd); out.code != 125 || !strings.Contains(out.stderr, "toolguard approvals watch") {
		t.Errorf("%+v", out)
	}
}
