//go:build linux

package gate

import (
	"strings"
	"testing"
)

// TestVariable: the files of a project can set variables, so TOOLGUARD_GATE can't turn the gate off; what is no value of it or of --gate is an
// error.
func TestVariable(t *testing.T) {
	s := newScene(t)
	readCorpus(t, s)
	call := []byte(`{"id":"1","tool":"Read","arguments":{"file_path":"/etc/shadow"}}`)
	for _, flags := range []string{"TOOLGUARD_GATE=off", "TOOLGUARD_GATE=0", "TOOLGUARD_GATE=strictly", "--gate=sideways", "--gate=OFF"} {
		if out := run(t, s.gate("plain", flags), call); out.code == 0 || len(out.stdout) > 0 && out.code != 1 {
			t.Errorf("%s: exit status %d: %s%s", flags, out.code, out.stdout, out.stderr)
		}
	}
	for flags, code := range map[string]int{"": 1, "TOOLGUARD_GATE=on": 1, "TOOLGUARD_GATE=strict": 1, "--gate=off": 0} {
		if out := run(t, s.gate("plain", strings.Fields(flags)...), call); out.code != code {
			t.Errorf("%s: exit status %d: %s", flags, out.code, out.stderr)
		}
	}
}

// TestExitStatus: 0 allow, 1 deny, 3 ask, and 2 with nothing on standard output for what is no call or policy.
func TestExitStatus(t *testing.T) {
	s := newScene(t)
	readCorpus(t, s)
	s.write(t, "broken", "version = 1\n[gate]\nstrikt = true\n")
	s.write(t, "hooked", "version = 1\n[[hooks.before_tool_call]]\ncommand = [\"./x\"]\n")
	s.write(t, "after", "version = 1\n[[hooks.after_tool_call]]\ncommand = [\"./x\"]\n")
	for _, test := range []struct {
		policy, call string
		code         int
	}{
		{"plain", `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"}}`, 0},
		{"plain", `{"id":"1","tool":"Read","arguments":{"file_path":"../out/x"}}`, 1},
		{"plain", `{"id":"1","tool":"Bash","arguments":{"command":"$X"}}`, 3},
		{"plain", `{"id":"1","tool":"Bash"}`, 2},
		{"broken", `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"}}`, 2},
		{"hooked", `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"}}`, 1}, // the hook is missing
		{"after", `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"}}`, 2},
		{"missing", `{"id":"1","tool":"Read","arguments":{"file_path":"a.txt"}}`, 2},
	} {
		out := run(t, s.gate(test.policy), []byte(test.call))
		if out.code != test.code || (test.code == 2) != (len(out.stdout) == 0) || (test.code == 2) != (len(out.stderr) > 0) {
			t.Errorf("%s %s: exit status %d: %s%s", test.policy, test.call, out.code, out.stdout, out.stderr)
		}
	}
}
