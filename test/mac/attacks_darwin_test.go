package mac

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// binary is toolguard as it is built for users, with egress alongside.
var binary string

func TestMain(m *testing.M) {
	os.Exit(childtest.WithPrograms(func(dir string) int {
		binary = filepath.Join(dir, "toolguard")
		return m.Run()
	}, "toolguard", "toolguard-egress"))
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

func run(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}

// confined returns a script under a policy.
func (s *scene) confined(policy, script string, flags ...string) *exec.Cmd {
	cmd := s.shell(script)
	args := append([]string{binary, "exec", "--policy", policy, "--workspace", s.values["ws"]}, flags...)
	cmd.Path, cmd.Args = binary, append(append(args, "--", "/bin/sh", "-c"), cmd.Args[len(cmd.Args)-1])
	return cmd
}

// TestAttacks runs each attack through toolguard: it fails, and succeeds under the control.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			s := newScene(t)
			s.serveSocket()
			policy := s.write(&a, a.rules)
			s.prepare(&a)
			events := filepath.Join(filepath.Dir(s.values["home"]), "events")
			got := run(t, s.confined(policy, a.script, "--events", events, "--format", "text"))
			switch {
			case got.code == 125:
				t.Fatalf("it wasn't started: %s", got.stderr)
			case got.code == 0:
				t.Errorf("the attack succeeded: %s%s", got.stdout, got.stderr)
			case strings.Contains(got.stdout, "content") && !strings.Contains(a.before, "ro.txt"):
				t.Errorf("it printed the content: %s", got.stdout)
			}
			log, _ := os.ReadFile(events)
			t.Logf("denied with exit status %d; events (best effort):\n%s", got.code, log)

			control := newScene(t)
			control.serveSocket()
			cmd := control.shell(a.script)
			if a.control != "-" {
				cmd = control.confined(control.write(&a, a.control), a.script, "--report", "never")
			} else {
				control.write(&a, a.rules)
			}
			control.prepare(&a)
			if got := run(t, cmd); got.code != 0 {
				t.Errorf("the control failed with %d: %s%s", got.code, got.stdout, got.stderr)
			}
		})
	}
}

// TestDoctor: this Mac can enforce policies, and doctor reports it.
func TestDoctor(t *testing.T) {
	got := run(t, exec.Command(binary, "doctor", "--json"))
	var m struct {
		Supported bool   `json:"supported"`
		Auto      string `json:"auto"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &m); err != nil || got.code != 0 || !m.Supported || m.Auto != "seatbelt" {
		t.Errorf("%v: %+v", err, got)
	}
	t.Log(got.stdout)
}
