//go:build linux

package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/daemon"
	"github.com/toolguard/toolguard/internal/event"
)

// TestAudit verifies and exports a spool as users do, before and after it was tampered with.
func TestAudit(t *testing.T) {
	bin := toolguard(t)
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(bin), "toolguardd"), "./cmd/toolguardd")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("of an older version", func(t *testing.T) { olderAudit(t, bin) })
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
	out := ask(0, "verify", dir)
	if !strings.Contains(out, "sound:") || !strings.Contains(out, "5, from 1 to 5, in 1 file") {
		t.Error(out)
	}
	key := regexp.MustCompile(`first key +([0-9a-f]{64})`).FindStringSubmatch(out)
	if key == nil {
		t.Fatal(out)
	}
	ask(0, "verify", "--key", key[1], dir)
	if out := ask(1, "verify", "--key", strings.Repeat("0", 64), dir); !strings.Contains(out, "another process wrote it") {
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
	must(t, os.WriteFile(file, refinger(bytes.Replace(text, []byte(`"two"`), []byte("\"\x1b]\x07\""), 1), 3), 0o600))
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

// refinger updates the fingerprint of a line of an audit.
func refinger(text []byte, line int) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	own := regexp.MustCompile(`(,"fingerprint":\{[^{}]*"value":")([0-9a-f]{64})("\})(\}\]\})\n$`)
	sum := sha256.Sum256(own.ReplaceAll(lines[line-1], []byte("$4")))
	lines[line-1] = own.ReplaceAll(lines[line-1], fmt.Appendf(nil, "${1}%x${3}${4}\n", sum))
	return bytes.Join(lines, nil)
}

// olderAudit verifies an audit of toolguardd 0.1.0, in OCSF 1.8, and reads it from this version's toolguardd, which continues it.
func olderAudit(t *testing.T, bin string) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "internal/audit/testdata/ocsf-1.8"))))
	folder := filepath.Join(dir, "audit")
	verify := func(says string) {
		t.Helper()
		if out, code := run(t, dir, bin, "audit", "verify", folder); code != 0 || !strings.Contains(out, "sound:") || !strings.Contains(out, says) {
			t.Errorf("exit status %d: %s", code, out)
		}
	}
	verify("11, from 1 to 11, in 2 files")
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	var kept []byte
	for _, name := range []string{"000000000001.jsonl", "000000000002.jsonl"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		must(t, err)
		kept = append(kept, text...)
	}
	limits := audit.DefaultLimits
	limits.FileAge = 100 * 365 * 24 * time.Hour // the last file gets older each day
	l := audit.Start(audit.Config{Folder: folder, Version: "test", Limits: limits})
	d, err := daemon.New(daemon.Config{State: dir, Log: slog.New(slog.DiscardHandler), Limits: daemon.DefaultLimits, Audit: l})
	must(t, err)
	socket, _, err := daemon.Listen(filepath.Join(dir, "socket"))
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Serve(ctx, socket) }()
	l.Record(&event.Event{Kind: event.Denial, Session: "one", Resource: "fs", Capability: "read", Target: "/x"})
	must(t, l.Sync())
	for _, format := range event.Formats {
		out, code := run(t, dir, bin, "events", "--socket", filepath.Join(dir, "socket"), "--since", "all", "--format", format.String())
		if code != 0 {
			t.Errorf("%v: exit status %d: %s", format, code, out)
		}
		if says, isOCSF := map[event.Format]string{event.OCSF: `"version":"1.9.0"`, event.OCSF18: `"version":"1.8.0"`}[format]; isOCSF {
			after, same := strings.CutPrefix(out, string(kept)) // old records are passed on unmodified
			if !same || strings.Count(after, says) == 0 || strings.Count(after, says) != strings.Count(after, "\n") {
				t.Errorf("%v: %s", format, out)
			}
		}
		if !strings.Contains(out, "/etc/shadow") || !strings.Contains(out, "read /x") {
			t.Errorf("%v: %s", format, out)
		}
	}
	stop()
	must(t, <-done)
	_, err = l.Close()
	must(t, err)
	verify("in 2 files")
}
