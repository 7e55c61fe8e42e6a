package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// TestSeal changes hooks as a process of the session would.
func TestSeal(t *testing.T) {
	direct := script(t, `echo '{}'`)
	byShell := hookOf(direct.Dir, "sh", "check-call")
	lost := hookOf(direct.Dir, "./later")
	lostScript := hookOf(direct.Dir, "sh", "later")
	hooks := []*toolset.Hook{direct, byShell, lost, lostScript, {URL: "http://127.0.0.1/"}}
	r := &Runner{Env: environment, Check: Seal(hooks, environment)}
	run := func(h *toolset.Hook) string {
		if v := r.Before(t.Context(), []*toolset.Hook{h}, call, "", accept); v.Block != nil {
			return v.Block.Text
		}
		return ""
	}
	for _, h := range []*toolset.Hook{direct, byShell} {
		if got := run(h); got != "" {
			t.Errorf("unchanged: %s", got)
		}
	}
	for _, h := range []*toolset.Hook{lost, lostScript} { // it could be made between Check and its start
		if got := run(h); !strings.Contains(got, "didn't exist when toolguard began") {
			t.Errorf("missing: %q", got)
		}
	}
	if got := run(script(t, `echo '{}'`)); !strings.Contains(got, "wasn't there") {
		t.Errorf("another hook: %q", got)
	}
	file := filepath.Join(direct.Dir, "check-call")
	own := "#!/bin/sh\necho > ran; echo '{}'\n"
	childtest.Must(t, errors.Join(os.WriteFile(file, []byte(own), 0o755), os.WriteFile(filepath.Join(direct.Dir, "later"), []byte(own), 0o755)))
	for _, h := range []*toolset.Hook{direct, byShell} {
		if got := run(h); !strings.Contains(got, "check-call has changed") {
			t.Errorf("changed: %q", got)
		}
	}
	for _, h := range []*toolset.Hook{lost, lostScript} {
		if got := run(h); !strings.Contains(got, "didn't exist when toolguard began") {
			t.Errorf("made later: %q", got)
		}
	}
	if exists(filepath.Join(direct.Dir, "ran")) {
		t.Error("a changed program ran")
	}
}
