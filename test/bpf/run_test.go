//go:build linux

package bpf

import (
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

// row is a shell command in a session.
type row struct {
	what, command string
	status        int
	event         string // "reason capability target rule line"; "" for none
}

// denial has the fields of a denial's event.
type denial struct{ Reason, Capability, Target, Rule, Place string }

func (r denial) text(dir string) string {
	_, line, _ := strings.Cut(filepath.Base(r.Place), ":")
	words := []string{r.Reason, r.Capability, strings.ReplaceAll(r.Target, dir, "WS"), r.Rule, line}
	return strings.TrimSpace(strings.Join(words, " "))
}

// guest is the binary, where this is one of the virtual machines.
func guest(t *testing.T) string {
	t.Helper()
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	return filepath.Join(os.Getenv("TOOLGUARD_BUILT"), "toolguard")
}

// workspace makes a folder, and a policy outside it.
func workspace(t *testing.T, policy string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "ws")
	must(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(dir+".toml", []byte(policy), 0o644)))
	return dir
}

// run runs a row's command under the policy, and compares.
func (r row) run(t *testing.T, dir string) {
	t.Helper()
	toolguard := guest(t)
	_ = os.Remove(dir + ".events")
	cmd := exec.Command(toolguard, "exec", "--backend", "bpf", "--policy", dir+".toml", "--events", dir+".events", "--report", "never",
		"--", "/bin/sh", "-c", r.command)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != r.status {
		t.Errorf("%s: exit status %d, want %d\n%s", r.what, got, r.status, out)
	}
	var reported []string
	for _, e := range childtest.Lines[struct{ Unmapped denial }](t, dir+".events") {
		if e.Unmapped.Reason != "" {
			reported = append(reported, e.Unmapped.text(dir))
		}
	}
	if got := strings.Join(reported, "; "); got != r.event {
		t.Errorf("%s: reported %q, want %q", r.what, got, r.event)
	}
}
