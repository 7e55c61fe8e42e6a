//go:build linux

package daemon

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// settings writes the file that toolguardd reads at its start and at SIGHUP.
func settings(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() { _ = os.RemoveAll("/etc/toolguard") })
	must(t, errors.Join(os.MkdirAll("/etc/toolguard", 0o755), os.WriteFile("/etc/toolguard/toolguardd.toml", []byte(text), 0o644)))
}

// The settings file limits what a user may use. toolguardd reads it again at SIGHUP.
func TestSettings(t *testing.T) {
	settings(t, "[user]\nsessions = 1\n")
	s := serve(t, t.TempDir())
	newJob(t, nobodyUID, work, "echo up >can; sleep 1000").start().wrote("can", "up")
	another := func() bool {
		j := newJob(t, nobodyUID, work, "true")
		code := j.start().status()
		if code != 0 && !strings.Contains(j.out.String(), "1 sessions already, the most that one user may have") {
			t.Errorf("exit status %d: %s", code, &j.out)
		}
		return code == 0
	}
	if another() {
		t.Error("a second session begins")
	}
	settings(t, "[user]\nsessions = 2\n")
	must(t, s.Process.Signal(syscall.SIGHUP))
	eventually(t, "a second one begins", another)
	settings(t, "[user]\nsessions = 0\n")
	must(t, s.Process.Signal(syscall.SIGHUP))
	eventually(t, "it logs that it can't read them", func() bool { return strings.Contains(s.logSince(0), "the settings stay as they were") })
	if !another() {
		t.Error("settings that can't be read change something")
	}
}
