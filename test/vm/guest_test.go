//go:build linux

package vm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

// guest is the virtual machine that the test runs in.
type guest struct {
	series    string // "6.1", …, "newest"
	toolguard string // the binary
}

// inGuest skips a test that doesn't run in a virtual machine of scripts/vm.
func inGuest(t *testing.T) guest {
	t.Helper()
	g := guest{os.Getenv("TOOLGUARD_VM"), filepath.Join(os.Getenv("TOOLGUARD_BUILT"), "toolguard")}
	if g.series == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	return g
}

// session is a command under a policy.
type session struct {
	*exec.Cmd
	t              *testing.T
	workspace      string
	events         string
	stdout, stderr bytes.Buffer
}

// session prepares a shell command under a policy of these limits, in a workspace of its own.
func (g guest) session(t *testing.T, limits, script string) *session {
	t.Helper()
	dir := t.TempDir()
	s := &session{t: t, workspace: filepath.Join(dir, "workspace"), events: filepath.Join(dir, "events")}
	policy := filepath.Join(dir, "policy.toml")
	if err := errors.Join(
		os.Mkdir(s.workspace, 0o755),
		os.WriteFile(policy, []byte("version = 1\n[limits]\n"+limits+"\n"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	s.Cmd = exec.Command(g.toolguard, "exec", "--policy", policy, "--events", s.events, "--report", "never",
		"--", "bash", "-c", script)
	s.Dir, s.Stdout, s.Stderr = s.workspace, &s.stdout, &s.stderr
	s.WaitDelay = time.Second
	return s
}

// finish runs the session to its end and returns its exit status.
func (s *session) finish() int {
	s.t.Helper()
	must(s.t, s.Start())
	return s.status()
}

func (s *session) status() int {
	s.t.Helper()
	late := time.AfterFunc(10*time.Minute, func() { _ = s.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := s.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	s.t.Logf("%s%s%v", &s.stdout, &s.stderr, s.ProcessState)
	return s.ProcessState.ExitCode()
}

// met returns the limits that the session reached, according to its events.
func (s *session) met() string {
	s.t.Helper()
	type event struct {
		Unmapped struct{ Resource, Rule, Reason string }
	}
	var rules []string
	for _, e := range childtest.Lines[event](s.t, s.events) {
		if u := e.Unmapped; u.Resource == "limits" && u.Reason == "limit" {
			rules = append(rules, u.Rule)
		}
	}
	return strings.Join(rules, " ")
}
