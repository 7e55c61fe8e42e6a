//go:build linux

package test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// TestAudit verifies and exports a spool as users do, before and after it was tampered with.
func TestAudit(t *testing.T) {
	bin := toolguard(t)
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(bin), "toolguardd"), "./cmd/toolguardd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	s, err := audit.Open(audit.Config{Folder: dir, Version: "test"})
	must(t, err)
	for _, session := range []string{"one", "two", "one"} {
		if _, err := s.Append([]event.Event{{Kind: event.Denial, Session: session, Resource: "fs", Capability: "read", Target: "/x"}}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, s.Close())
	ask := func(status int, args ...string) string {
		t.Helper()
		out, code := run(t, dir, bin, append([]string{"audit"}, args...)...)
		if code != status {
			t.Errorf("%v: exit status %d: %s", args, code, out)
		}
		return out
	}
	said := ask(0, "verify", dir)
	if !strings.Contains(said, "sound:") || !strings.Contains(said, "5, from 1 to 5, in 1 file") {
		t.Error(said)
	}
	key := regexp.MustCompile(`first key +([0-9a-f]{64})`).FindStringSubmatch(said)
	if key == nil {
		t.Fatal(said)
	}
	ask(0, "verify", "--key", key[1], dir)
	if out := ask(1, "verify", "--key", strings.Repeat("0", 64), dir); !strings.Contains(out, "written by somebody else") {
		t.Error(out)
	}
	file := filepath.Join(dir, "000000000001.jsonl")
	text, err := os.ReadFile(file)
	must(t, err)
	if out := ask(0, "export", dir); out != string(text) {
		t.Error(out)
	}
	if out := ask(0, "export", "--session", "one", "--from", "3", dir); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"sequence":4`) {
		t.Error(out)
	}
	hostile := bytes.Replace(text, []byte(`"two"`), []byte("\"\x1b]\x07\""), 1)
	must(t, os.WriteFile(file, hostile, 0o600))
	if out := ask(2, "export", dir); strings.ContainsAny(out, "\x1b\x07") || strings.Count(out, "\n") != 5 || !strings.Contains(out, "record 3 isn't as any is written") {
		t.Error(out)
	}
	must(t, os.WriteFile(file, bytes.Replace(text, []byte(`"two"`), []byte(`"owt"`), 1), 0o600))
	if out := ask(1, "verify", dir); !strings.Contains(out, "000000000001.jsonl:3: record 3 isn't as it was written") || !strings.Contains(out, "not sound: 1 problem") {
		t.Error(out)
	}
	var r struct{ Problems []struct{ Line int } }
	if err := json.Unmarshal([]byte(ask(1, "verify", "--json", dir)), &r); err != nil || len(r.Problems) != 1 || r.Problems[0].Line != 3 {
		t.Errorf("%v %+v", err, r)
	}
	if out := ask(2, "verify", filepath.Join(dir, "nowhere")); !strings.Contains(out, "there is no audit in") {
		t.Error(out)
	}
}
