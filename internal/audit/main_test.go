package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/audit/report"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

var must = childtest.Must

// denial returns a denial that is identified by its number.
func denial(n int) event.Event {
	return event.Event{
		Kind: event.Denial, Session: "s1", Tool: "build", Mode: "enforce", Policy: "work", Reason: "no_rule",
		Resource: "fs", Capability: "read", Target: fmt.Sprintf("/secret/%d", n), Mechanism: "bpf:file_open", Errno: "EACCES",
		Process: []event.Process{{PID: 4711, Exe: "/usr/bin/python3.11", Comm: "python3", Argv: []string{"python3", "build.py"}}},
	}
}

func denials(from, n int) (list []event.Event) {
	for i := range n {
		list = append(list, denial(from+i))
	}
	return list
}

func open(t testing.TB, folder string, l Limits) *Spool {
	t.Helper()
	s, err := Open(Config{Folder: folder, Version: "test", Limits: l})
	must(t, err)
	return s
}

func appendAll(t testing.TB, s *Spool, list []event.Event) {
	t.Helper()
	if n, err := s.Append(list); n != len(list) || err != nil {
		t.Fatalf("%d of %d: %v", n, len(list), err)
	}
}

func closeSpool(t testing.TB, s *Spool) {
	t.Helper()
	must(t, s.Close())
}

// writeSpool appends events to a spool and closes it.
func writeSpool(t *testing.T, folder string, l Limits, list []event.Event) *Spool {
	t.Helper()
	s := open(t, folder, l)
	appendAll(t, s, list)
	closeSpool(t, s)
	return s
}

func noProgress(int64, int64) {}

// verifySpool returns Verify's report.
func verifySpool(t *testing.T, folder string) *report.Report {
	t.Helper()
	r, err := Verify(folder, "", noProgress)
	must(t, err)
	return r
}

func sound(t *testing.T, folder string) *report.Report {
	t.Helper()
	r := verifySpool(t, folder)
	if len(r.Problems) > 0 {
		t.Fatalf("%+v", r.Problems)
	}
	return r
}

// linesOf returns a spool's lines, as a Reader returns them.
func linesOf(t *testing.T, folder string) (list []string) {
	t.Helper()
	r := NewReader(folder, Cursor{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		list = append(list, string(line))
	}
}

// targets returns the numbers of the denials in a spool.
func targets(t *testing.T, folder string) (list []int) {
	t.Helper()
	for _, line := range linesOf(t, folder) {
		if n, ok := target(t, []byte(line)); ok {
			list = append(list, n)
		}
	}
	return list
}

// gapsOf returns a spool's gaps.
func gapsOf(t *testing.T, folder string) string {
	t.Helper()
	return strings.Join(slices.DeleteFunc(linesOf(t, folder), func(line string) bool { return !strings.Contains(line, `"kind":"gap"`) }), "")
}

func target(t *testing.T, line []byte) (n int, ok bool) {
	t.Helper()
	var e struct{ Unmapped struct{ Target string } }
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	_, err := fmt.Sscanf(e.Unmapped.Target, "/secret/%d", &n)
	return n, err == nil
}

// recordOne records one denial, and returns what Sync returns.
func recordOne(l *Log, n int) error {
	e := denial(n)
	l.Record(&e)
	return l.Sync()
}

// allRecords returns the text of all files of a spool.
func allRecords(t *testing.T, dir string) (text []byte) {
	t.Helper()
	list, err := files(dir)
	must(t, err)
	for _, n := range list {
		text = append(text, readFile(t, filepath.Join(dir, fileName(n)))...)
	}
	return text
}

// appendMany opens a spool, appends 30 denials n times, and closes it.
func appendMany(t *testing.T, dir string, l Limits, n int) *Spool {
	t.Helper()
	s := open(t, dir, l)
	for range n {
		appendAll(t, s, denials(0, 30))
	}
	closeSpool(t, s)
	return s
}

// small limits result in several files of few events.
var small = Limits{Size: 1 << 20, FileSize: 16 << 10}

// fillSpool creates a spool with several files, and closes it.
func fillSpool(t testing.TB, folder string) {
	s := open(t, folder, small)
	for i := range 10 {
		appendAll(t, s, denials(10*i, 10))
	}
	closeSpool(t, s)
}
