package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

func open(t *testing.T, folder string, l Limits) *Spool {
	t.Helper()
	s, err := Open(Config{Folder: folder, Version: "test", Limits: l})
	must(t, err)
	return s
}

func appendAll(t *testing.T, s *Spool, list []event.Event) {
	t.Helper()
	if n, err := s.Append(list); n != len(list) || err != nil {
		t.Fatalf("%d of %d: %v", n, len(list), err)
	}
}

func closeSpool(t *testing.T, s *Spool) {
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

// small limits result in several files of few events.
var small = Limits{Size: 1 << 20, FileSize: 16 << 10}

// fillSpool creates a spool with several files, and closes it.
func fillSpool(t testing.TB, folder string) {
	s, err := Open(Config{Folder: folder, Version: "test", Limits: small})
	must(t, err)
	for i := range 10 {
		if n, err := s.Append(denials(10*i, 10)); n != 10 || err != nil {
			t.Fatal(err)
		}
	}
	must(t, s.Close())
}

// TestSpool checks that the appended events are there, in order, across files and restarts, and that each file has its own key.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		s := open(t, dir, small)
		for j := range 5 {
			appendAll(t, s, denials(50*i+10*j, 10))
		}
		closeSpool(t, s)
	}
	r := sound(t, dir)
	if r.Files < 4 || len(r.Keys) != r.Files || r.Lost+uint64(r.Gaps) > 0 || r.Unsigned > 0 || r.First != 1 || r.Last != r.Records {
		t.Errorf("%+v", r)
	}
	if got := targets(t, dir); len(got) != 200 || !slices.IsSorted(got) || got[199] != 199 {
		t.Error(got)
	}
	if want := uint64(200 + r.Checkpoints); r.Records != want {
		t.Errorf("%d records, not %d", r.Records, want)
	}
	list, _ := files(dir)
	var done, total int64
	if _, err := Verify(dir, "", func(d, of int64) { done, total = d, of }); err != nil || done != total || total != size(dir, list) || total < 40<<10 {
		t.Errorf("%d of %d bytes are verified, %v", done, total, err)
	}
	for _, none := range []string{t.TempDir(), filepath.Join(dir, "none")} {
		if _, err := Verify(none, "", noProgress); err == nil || !strings.Contains(err.Error(), "there is no audit") {
			t.Error(err)
		}
	}
	if _, err := Open(Config{Folder: dir}); err != nil {
		t.Error(err)
	}
	if _, err := Open(Config{Folder: dir}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two write at a time: %v", err)
	}
}

// TestForm checks the lines against the package comment and docs/events.md, without this package's parser.
func TestForm(t *testing.T) {
	type fingerprint struct{ Value string }
	dir := t.TempDir()
	fillSpool(t, dir)
	own := regexp.MustCompile(`,"fingerprint":\{[^{}]*\}(\}\]\})\n$`)
	list, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	n, uid, previous := 0, "", ""
	for _, name := range list {
		text := readFile(t, name)
		for line := range bytes.Lines(text) {
			var e struct {
				Metadata struct {
					UID      string
					Sequence int
				}
				Unmapped struct{ Boot string }
				Attested []struct {
					Chain       string `json:"chain_uid"`
					Fingerprint fingerprint
					Previous    struct {
						UID         string
						Fingerprint fingerprint
					} `json:"prev_event"`
				} `json:"attestation_list"`
			}
			must(t, json.Unmarshal(line, &e))
			if n++; e.Metadata.Sequence != n || len(e.Unmapped.Boot) != 36 || len(e.Attested) != 1 {
				t.Fatalf("line %d: %s", n, line)
			}
			a := e.Attested[0]
			hash := fmt.Sprintf("%x", sha256.Sum256(own.ReplaceAll(line, []byte("$1"))))
			if a.Fingerprint.Value != hash || a.Previous.Fingerprint.Value != previous || a.Previous.UID != uid ||
				e.Metadata.UID != fmt.Sprintf("%s-%d", a.Chain, n) {
				t.Fatalf("line %d: %s", n, line)
			}
			previous, uid = hash, e.Metadata.UID
		}
	}
	if n < 100 {
		t.Errorf("only %d lines", n)
	}
}

// TestCrash checks that incomplete writes are removed and reported, and that nothing else is lost.
func TestCrash(t *testing.T) {
	for name, tail := range map[string]string{
		"nothing": "",
		"torn":    `{"time":12`,
		"zeros":   strings.Repeat("\x00", 5000),
		"lines":   "{}\n{}\n{\"time\"",
		"long":    strings.Repeat("x", 2*maxLine),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Limits{})
			appendAll(t, s, denials(0, 10))
			file := filepath.Join(dir, fileName(1))
			add(t, file, tail)
			_ = s.release() // as a kill does
			writeSpool(t, dir, Limits{}, denials(10, 1))
			r := sound(t, dir)
			if got := targets(t, dir); len(got) != 11 || !slices.IsSorted(got) {
				t.Error(got)
			}
			if r.Files != 1 || r.Gaps != 1 || r.Inexact != 1 || r.Lost != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func add(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestCrashWhileRotating checks that a key that a checkpoint names and that wasn't stored is restored, and that nothing else is
// lost: the head may already be signed with it, or the new file may be empty.
func TestCrashWhileRotating(t *testing.T) {
	for _, turn := range []func(*Spool) error{(*Spool).finish, (*Spool).rotate} {
		dir := t.TempDir()
		s := open(t, dir, small)
		appendAll(t, s, denials(0, 1))
		old := readFile(t, s.path(keyName))
		must(t, turn(s))
		release(t, s)
		writeFile(t, s.path(keyName), old)
		writeSpool(t, dir, small, denials(1, 1))
		if r := sound(t, dir); len(r.Keys) != 2 || r.Inexact != 1 || !strings.Contains(gapsOf(t, dir), "the spool wasn't closed") {
			t.Errorf("%+v", r)
		}
	}
}

// TestGarbage checks that a file without records isn't changed, and that new records go to another file.
func TestGarbage(t *testing.T) {
	for _, c := range []struct {
		text  string
		head  bool
		files int
	}{
		{"x\n", true, 2},
		{"x", true, 2},
		{strings.Repeat("x", 2*maxLine) + "\n", true, 2},
		{"x\n", false, 2},
		{"", true, 2},
		{"", false, 1}, // nothing was ever in it
	} {
		dir := t.TempDir()
		s := writeSpool(t, dir, Limits{}, denials(0, 3))
		file := s.path(fileName(1))
		writeFile(t, file, []byte(c.text))
		if !c.head {
			remove(t, s.path(headName))
		}
		writeSpool(t, dir, Limits{}, denials(3, 1))
		if list, _ := files(dir); len(list) != c.files || c.files > 1 && string(readFile(t, file)) != c.text {
			t.Errorf("%.10q, head %v: files %d", c.text, c.head, list)
		}
		if r := verifySpool(t, dir); c.head && r.Lost != 5 {
			t.Errorf("%.10q: %d are reported as lost", c.text, r.Lost)
		}
	}
}

// TestReadLine checks that lines up to the maximum are read completely.
func TestReadLine(t *testing.T) {
	for _, n := range []int{1, 4096, 4097, 64 << 10, 64<<10 + 1, maxLine, maxLine + 1, 3 * maxLine} {
		line := strings.Repeat("x", n-1) + "\n"
		r := bufio.NewReaderSize(strings.NewReader(line+"next\n"+line[:n-1]), 4096)
		got, err := readLine(r)
		if long := n > maxLine; errors.Is(err, errLong) != long || !long && string(got) != line {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		if got, err := readLine(r); string(got) != "next\n" || err != nil {
			t.Errorf("after %d bytes: %.10q, %v", n, got, err)
		}
		if got, err := readLine(r); n <= maxLine && (string(got) != line[:n-1] || !errors.Is(err, io.EOF)) {
			t.Errorf("%d bytes at the end: %d, %v", n-1, len(got), err)
		}
	}
}

// TestLink checks that only a complete line with a valid number has a link.
func TestLink(t *testing.T) {
	want := link{chain: "c0ffee", sequence: 7, previous: sha256.Sum256(nil)}
	line := forgeRecord(want, nil)
	want.hash = hashOf(line)
	if got, ok := parseLink(line); !ok || got != want {
		t.Fatalf("%+v of %s", got, line)
	}
	for n := range line {
		if got, ok := parseLink(line[:n]); ok {
			t.Errorf("%+v of %s", got, line[:n])
		}
	}
	for _, uid := range []string{"c0ffee-0", "c0ffee--7", "c0ffee-9223372036854775808", "c0ffee", "7", "", "c0ffee-" + strings.Repeat("0", 64) + "7"} {
		if got, ok := parseLink(refinger(bytes.Replace(line, []byte("c0ffee-7"), []byte(uid), 1))); ok {
			t.Errorf("%q: %+v", uid, got)
		}
	}
}

// TestFilter checks the selection by number, session and kind.
func TestFilter(t *testing.T) {
	list := denials(0, 4)
	list[1].Session, list[2].Kind = "s2", event.Exec
	dir := t.TempDir()
	writeSpool(t, dir, Limits{}, list) // after a checkpoint, and before another one
	lines := append(linesOf(t, dir), "{}\n", "x")
	for _, c := range []struct {
		f    Filter
		want []int
	}{
		{Filter{}, []int{0, 1, 2, 3, 4, 5}},
		{Filter{From: 4}, []int{3, 4, 5}},
		{Filter{To: 3}, []int{0, 1, 2}},
		{Filter{From: 3, To: 3}, []int{2}},
		{Filter{Session: "s1"}, []int{1, 3, 4}},
		{Filter{Kind: "denial"}, []int{1, 2, 4}},
		{Filter{Session: "s1", Kind: "denial", From: 3}, []int{4}},
	} {
		var got []int
		for i, line := range lines {
			if c.f.Matches([]byte(line)) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.f, got, c.want)
		}
	}
}

// TestSize checks that a nearly full spool rejects new sessions, and stores the events of running ones until it is full. Lost
// events are counted.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir, Limits: Limits{Size: 128 << 10}})
	var full *FullError
	n := 0
	for ; l.Ready() == nil && n < 1000; n++ {
		e := denial(n)
		l.Record(&e)
		must(t, l.Sync())
	}
	if err := l.Ready(); !errors.As(err, &full) || full.Used < 110<<10 {
		t.Fatalf("after %d: %v", n, err)
	}
	ok := n
	for ; ok < 1000; ok++ {
		e := denial(ok)
		l.Record(&e)
		if l.Sync() != nil {
			break
		}
	}
	if ok == n || ok == 1000 {
		t.Errorf("nearly full with %d, full with %d", n, ok)
	}
	for i := range 9 {
		e := denial(ok + 1 + i)
		l.Record(&e)
	}
	if err := l.Sync(); !errors.As(err, &full) {
		t.Error(err)
	}
	l.SetLimits(Limits{Size: 1 << 20})
	e := denial(2000)
	l.Record(&e)
	must(t, l.Sync())
	must(t, l.Ready())
	if missing, err := l.Close(); missing != 10 || !errors.As(err, &full) {
		t.Errorf("%d missing: %v", missing, err)
	}
	if r := sound(t, dir); r.Lost != 10 || r.Inexact != 0 {
		t.Errorf("%+v", r)
	}
	if got := targets(t, dir); len(got) != ok+1 {
		t.Errorf("%d of %d", len(got), ok+1)
	}
}

// TestDrop checks that the oldest file is removed, and that a gap has the number of its events.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Size: 128 << 10, Drop: true})
	for i := range 300 {
		appendAll(t, s, denials(i, 1))
	}
	closeSpool(t, s)
	r, got := sound(t, dir), targets(t, dir)
	if r.Removed == 0 || r.Lost+uint64(len(got)) != 300 || r.First != r.Removed+1 || r.Inexact != 0 {
		t.Errorf("%d %+v", len(got), r)
	}
	if len(got) == 0 || got[len(got)-1] != 299 {
		t.Error(got)
	}
}

// TestCountLosses checks that a removed file counts with each event's count and with the gaps in it.
func TestCountLosses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	list := denials(0, 2)
	list[1].Count, list[1].Target = 100_000, `/x ,"count":7`
	exec := denial(0)
	exec.Kind = event.Exec
	gap := event.Event{Kind: event.Gap, Count: 50, Execs: 3, Extra: map[string]string{"exact": "true", "why": "x"}}
	appendAll(t, s, append(list, exec, gap, event.Event{Kind: event.SessionEnd, Session: "s1"}))
	if got, err := s.countLosses(1); err != nil || got != (lossCount{Count: 100_052, Execs: 4}) {
		t.Errorf("%+v %v", got, err)
	}
	gap.Extra = map[string]string{"exact": "false"}
	gap.Count, gap.Execs = 0, 0
	appendAll(t, s, []event.Event{gap})
	must(t, s.rotate())
	if !s.removeFirst(false, "to free space") {
		t.Fatal("nothing was removed")
	}
	if e := s.pendingGaps[0]; e.Count != 100_052 || e.Execs != 4 || e.Extra["exact"] != "false" || s.unreportedRemoval.Lost.Count != e.Count {
		t.Errorf("%+v", e)
	}
	closeSpool(t, s)
	one, two := removed{First: 1, Last: 2, Shipped: true}, removed{First: 3, Last: 4}
	if got := one.plus(two); got != (removed{First: 1, Last: 4}) {
		t.Errorf("with records that some sink hasn't received: %+v", got)
	}
}

// TestMissingFiles checks that files that another process has removed are named, and the one that the spool removes isn't.
func TestMissingFiles(t *testing.T) {
	for _, c := range []struct {
		first, gone, next uint64
		want              string
	}{
		{1, 1, 2, ""},
		{1, 2, 3, fileName(1)},
		{1, 3, 4, fileName(1) + " to " + fileName(2)},
		{1, 1, 3, fileName(2)},
		{1, 1, 4, fileName(2) + " to " + fileName(3)},
		{1, 2, 4, fileName(1) + " and " + fileName(3)},
	} {
		if got := missingFiles(c.first, c.gone, c.next); strings.TrimPrefix(got, foreignRemoval) != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestRemovedAndKilled checks that a removal is reported once, whenever the writer is killed.
func TestRemovedAndKilled(t *testing.T) {
	for _, c := range []struct {
		name     string
		shipped  bool
		reported bool // before it's killed
		put      string
	}{
		{name: "after two files"},
		{name: "after two files that every sink has", shipped: true},
		{name: "before the second one is gone", put: fileName(2)},
		{name: "after the report, before the head is written", reported: true, put: headName},
		{name: "after the report", reported: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			fillSpool(t, dir)
			s := open(t, dir, Limits{Size: 1 << 20})
			appendAll(t, s, denials(200, 1))
			second := readFile(t, s.path(fileName(2)))
			for range 2 {
				if !s.removeFirst(c.shipped, "to free space") {
					t.Fatal("nothing is removed")
				}
			}
			head := readFile(t, s.path(headName))
			want := uint64(100 + 1 + 3)
			if c.reported {
				appendAll(t, s, denials(201, 1))
				want++
			}
			must(t, s.release())
			switch c.put {
			case headName:
				writeFile(t, s.path(headName), head)
			case fileName(2):
				writeFile(t, s.path(fileName(2)), second)
			}
			for i := range 3 {
				s = writeSpool(t, dir, Limits{Size: 1 << 20}, denials(210+i, 1))
			}
			r := sound(t, dir)
			if c.shipped {
				text := readFile(t, s.path(fileName(s.number)))
				if n := bytes.Count(text, []byte("every sink has them")); n != 1 || r.Lost > 0 {
					t.Errorf("reported %d times, %d lost", n, r.Lost)
				}
			} else if n := len(targets(t, dir)); r.Removed == 0 || r.Lost+uint64(n) != want {
				t.Errorf("of %d denials, %d exist and %d are reported as lost", want, n, r.Lost)
			}
		})
	}
}

// TestShipped checks that a file that every sink has is removed without a loss, and not before.
func TestShipped(t *testing.T) {
	dir := t.TempDir()
	fillSpool(t, dir)
	s := open(t, dir, Limits{Size: 40 << 10})
	s.Cursors = filepath.Join(t.TempDir(), "cursors")
	chain, end := s.stream.ID, s.number
	for _, text := range []string{
		"",
		"{}",
		`{"sinks":{}}`,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{"cursor":{"chain":"CHAIN","file":1}}}}`,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{}}}`,
		`{"sinks":{"a":{"cursor":{"chain":"another","file":END}}}}`,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":99}}}}`,
	} {
		writeCursors(t, s.Cursors, text, chain, end)
		var full *FullError
		if _, err := s.Append(denials(200, 1)); !errors.As(err, &full) {
			t.Errorf("%s: %v", text, err)
		}
	}
	writeCursors(t, s.Cursors, `{"sinks":{"a":{"cursor":{"chain":"CHAIN","sequence":3}},"b":{"cursor":{"chain":"x","sequence":3}},"c":{"cursor":{"chain":"CHAIN","sequence":1000}}}}`, chain, end)
	if all := float64(s.synced.sequence); !maps.Equal(s.behind(), map[string]float64{"a": all - 3, "b": all, "c": all}) {
		t.Errorf("of %v records: %v", all, s.behind())
	}
	writeCursors(t, s.Cursors, `{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{"cursor":{"chain":"CHAIN","file":END}}}}`, chain, end)
	appendAll(t, s, denials(200, 1))
	closeSpool(t, s)
	if r := sound(t, dir); r.Removed == 0 || r.Lost > 0 {
		t.Errorf("%+v", r)
	}
	if last, err := os.ReadFile(filepath.Join(dir, fileName(s.number))); err != nil || !strings.Contains(string(last), "the shipper reports that every sink has them") {
		t.Errorf("the removal isn't reported: %v", err)
	}
}

// TestUnsent checks that dropped records that some sink hasn't received are counted, and others aren't.
func TestUnsent(t *testing.T) {
	for text, want := range map[string]bool{
		`{"sinks":{}}`: false,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}}}}`:                                           false,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{"cursor":{"chain":"CHAIN","file":1}}}}`: true,
	} {
		dir := t.TempDir()
		fillSpool(t, dir)
		s := open(t, dir, Limits{Size: 40 << 10, Drop: true})
		s.Cursors = filepath.Join(t.TempDir(), "cursors")
		writeCursors(t, s.Cursors, text, s.stream.ID, s.number)
		before := s.begin.Sequence
		appendAll(t, s, denials(200, 1))
		if gone := s.begin.Sequence - before; gone == 0 || want && s.unsent != gone || !want && s.unsent != 0 {
			t.Errorf("%s: %d of %d", text, s.unsent, gone)
		}
		closeSpool(t, s)
	}
}

func writeCursors(t *testing.T, name, text, chain string, end uint64) {
	t.Helper()
	text = strings.NewReplacer("CHAIN", chain, "END", fmt.Sprint(end)).Replace(text)
	writeFile(t, name, []byte(text))
}

// TestHostileCursorFiles checks that a hostile cursor file neither blocks its reader nor is followed.
func TestHostileCursorFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	writeFile(t, good, []byte(`{"sinks":{"a":{"cursor":{"file":7}}}}`))
	if all, err := ReadCursors(good); err != nil || all["a"].File != 7 {
		t.Fatalf("%v %v", all, err)
	}
	endless := filepath.Join(dir, "endless")
	text := `{"sinks":{"a":{"cursor":{"file":7}}}}`
	text += strings.Repeat(" ", maxState-len(text))
	writeFile(t, endless, []byte(text))
	if _, err := ReadCursors(endless); err != nil {
		t.Error(err)
	}
	writeFile(t, endless, []byte(text+" "))
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	must(t, errors.Join(os.Symlink(good, link), syscall.Mkfifo(fifo, 0o600)))
	for _, name := range []string{endless, link, fifo, dir, "/dev/zero"} {
		if all, err := ReadCursors(name); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
	many := filepath.Join(dir, "many")
	sinks := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf(`,"%d":{}`, i)
		}
		return "{" + strings.TrimPrefix(text, ",") + "}"
	}
	for _, text := range []string{
		`{"sinks":` + sinks(8000) + "}",
		`{"sinks":` + sinks(MaxSinks+1) + "}",
		`{"sinks":{` + strings.Repeat(`"a":{},`, 8000) + `"a":{}}}`,
		`{"sinks":{}` + strings.Repeat(`,"sinks":{"a":{}}`, 4000) + "}",
		`{"sinks":[{}]}`,
		`{"sinks":{"a":1}}`,
	} {
		writeFile(t, many, []byte(text))
		if work := testing.AllocsPerRun(3, func() {
			if all, err := ReadCursors(many); err == nil {
				t.Errorf("%.40s: %d", text, len(all))
			}
		}); work > 1000 {
			t.Errorf("%.40s: it takes %.0f allocations", text, work)
		}
	}
	writeFile(t, many, []byte(`{"sinks":`+sinks(MaxSinks)+"}"))
	if all, err := ReadCursors(many); err != nil || len(all) != MaxSinks {
		t.Errorf("%d %v", len(all), err)
	}
}

// TestAge checks that a file is finished by its age, independent of the events' times.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{FileAge: time.Hour})
	at := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		list := denials(i, 2)
		list[0].Time, list[1].Time = at, at.AddDate(-30, 0, 0)
		at = at.AddDate(-1, 0, 0)
		appendAll(t, s, list)
		appendAll(t, s, denials(i, 1))
		s.began = s.began.Add(-time.Hour)
	}
	closeSpool(t, s)
	if r := sound(t, dir); r.Files != 3 {
		t.Errorf("%+v", r)
	}
}

// TestAgeOverRestarts checks that a file's age counts from its creation.
func TestAgeOverRestarts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{FileAge: time.Hour})
	appendAll(t, s, denials(0, 1))
	s.began = s.began.Add(-time.Hour)
	closeSpool(t, s)
	for i := range 2 {
		writeSpool(t, dir, Limits{FileAge: time.Hour}, denials(i+1, 1))
	}
	if r := sound(t, dir); r.Files != 2 {
		t.Errorf("%+v", r)
	}
}

// TestSignatureWithoutEvents checks that the last records are signed soon, even if no event follows.
func TestSignatureWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := Start(Config{Folder: dir})
		signed := func() bool {
			t.Helper()
			all := linesOf(t, dir)
			return strings.Contains(all[len(all)-1], `"kind":"checkpoint"`)
		}
		for range 3 {
			for i := range 3 {
				e := denial(i)
				l.Record(&e)
				must(t, l.Sync())
				time.Sleep(13 * time.Second) // so that no record is appended while a checkpoint is signed
			}
			if signed() {
				t.Error("the last one is signed at once")
			}
			time.Sleep(checkpointInterval)
			synctest.Wait()
			if !signed() {
				t.Error("the last one isn't signed")
			}
		}
		records := sound(t, dir).Records
		time.Sleep(100 * checkpointInterval)
		synctest.Wait()
		if n := sound(t, dir).Records - records; n > 0 {
			t.Errorf("%d records of nothing", n)
		}
		_, _ = l.Close()
	})
}

// TestFolderRemoved checks that the next spool reports the removal of a whole audit, once.
func TestFolderRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fillSpool(t, dir)
	id := sound(t, dir).Chain
	for i, remove := range []func() error{
		func() error { return os.RemoveAll(dir) },
		func() error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		func() error { return nil },
	} {
		must(t, remove())
		for range 2 {
			writeSpool(t, dir, Limits{}, denials(0, 1))
		}
		r := sound(t, dir)
		if i < 2 && r.Chain == id || r.Inexact != 1 || !strings.Contains(gapsOf(t, dir), "the audit "+id+" ") {
			t.Errorf("%+v\n%s", r, gapsOf(t, dir))
		}
		if i < 1 {
			id = r.Chain
		}
	}
}

// TestLongNames checks that a session with long names is recorded, and doesn't delay other users.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir})
	for i := range 100 {
		e := denial(i)
		e.Owner, e.Tool, e.Policy = "1000", strings.Repeat("\x01", maxLine), strings.Repeat("p", maxLine)
		l.Record(&e)
	}
	must(t, errors.Join(l.ReadyFor(1001), l.Sync()))
	if _, err := l.Close(); err != nil {
		t.Error(err)
	}
	r := sound(t, dir)
	if got := targets(t, dir); len(got) != 100 || r.Gaps != 0 {
		t.Errorf("%d recorded, %+v", len(got), r)
	}
}

// TestReader reads during writes, with a new reader for each record.
func TestReader(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Size: 128 << 10, Drop: true})
	var at Cursor
	want := 0
	for i := range 50 {
		appendAll(t, s, denials(i, 1))
		for {
			r := NewReader(dir, at)
			line, err := r.Next()
			r.Close()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			at = r.Cursor()
			if n, ok := target(t, line); ok {
				if n != want {
					t.Fatalf("%d, not %d", n, want)
				}
				want++
			}
		}
		if want != i+1 {
			t.Fatalf("%d isn't there", i)
		}
	}
	for i := range 300 {
		appendAll(t, s, denials(50+i, 1))
	}
	r := NewReader(dir, at)
	defer r.Close()
	var gone *RemovedError
	if _, err := r.Next(); !errors.As(err, &gone) || gone.First != at.Sequence+1 || gone.Last <= gone.First {
		t.Fatalf("%v", err)
	}
	line, err := r.Next()
	if l, ok := parseLink(line); err != nil || !ok || l.sequence != gone.Last+1 {
		t.Errorf("%v: %s", err, line)
	}
	closeSpool(t, s)
}

// TestReaderOfNewFile checks that a reader at a file's end reads nothing of the next file before the head includes it.
func TestReaderOfNewFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendAll(t, s, denials(0, 3))
	r := NewReader(dir, Cursor{})
	defer r.Close()
	for range 4 { // and the checkpoint
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	must(t, s.rotate())
	must(t, s.syncHead())
	add(t, lastFile(t, dir), "it isn't synced yet\n")
	if line, err := r.Next(); err != nil || !bytes.Contains(line, []byte("end of file")) {
		t.Errorf("%s, %v", line, err)
	}
	if line, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%s, %v", line, err)
	}
}

// TestReaderOfDamage checks that a reader continues after a damaged line and a missing file, also with a new reader for each
// record.
func TestReaderOfDamage(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string, last uint64)
		times  int
	}{
		"a line": {func(t *testing.T, dir string, _ uint64) {
			change(t, filepath.Join(dir, fileName(1)), func(l [][]byte) [][]byte { l[3] = []byte("{}\n"); return l })
		}, 1},
		"a file's end": {func(t *testing.T, dir string, _ uint64) {
			change(t, filepath.Join(dir, fileName(1)), func(l [][]byte) [][]byte { n := len(l) - 1; l[n] = l[n][:50]; return l })
		}, 1},
		"the end": {func(t *testing.T, dir string, last uint64) {
			change(t, filepath.Join(dir, fileName(last)), func(l [][]byte) [][]byte { n := len(l) - 1; l[n] = l[n][:50]; return l })
		}, 2}, // and the end isn't where it was
		"a file":         {func(t *testing.T, dir string, _ uint64) { remove(t, filepath.Join(dir, fileName(3))) }, 1},
		"the first file": {func(t *testing.T, dir string, _ uint64) { remove(t, filepath.Join(dir, fileName(1))) }, 1},
		"the last file":  {func(t *testing.T, dir string, last uint64) { remove(t, filepath.Join(dir, fileName(last))) }, 1},
	} {
		for _, fresh := range []bool{false, true} {
			dir := t.TempDir()
			fillSpool(t, dir)
			list, _ := files(dir)
			c.damage(t, dir, list[len(list)-1])
			want := 0
			for _, n := range list {
				text, _ := os.ReadFile(filepath.Join(dir, fileName(n)))
				for line := range bytes.Lines(text) {
					if _, ok := parseLink(line); ok {
						want++
					}
				}
			}
			r := NewReader(dir, Cursor{})
			defer func() { r.Close() }()
			damaged, read := 0, 0
			for read+damaged < 1000 {
				_, err := r.Next()
				var damage *DamageError
				if errors.Is(err, io.EOF) {
					break
				} else if errors.As(err, &damage) {
					damaged++
				} else if err != nil {
					t.Fatal(err)
				} else {
					read++
				}
				if fresh {
					r.Close()
					r = NewReader(dir, r.Cursor())
				}
			}
			if at, end := r.Cursor(), r.head.End; damaged != c.times || read != want || at.File != end.File || at.Offset != end.Offset {
				t.Errorf("%s, a new reader each time %v: %d of %d read, %d damaged, at %+v of %+v", name, fresh, read, want, damaged, at, end)
			}
		}
	}
}

// TestReaderOfCopy checks that a reader detects that an older copy of the audit was restored and continued.
func TestReaderOfCopy(t *testing.T) {
	dir := t.TempDir()
	writeSpool(t, dir, Limits{}, denials(100, 3))
	copied := t.TempDir()
	must(t, os.CopyFS(copied+"/audit", os.DirFS(dir)))
	read := func(dir string, at Cursor) (damage, lines int, after Cursor) {
		r := NewReader(dir, at)
		defer r.Close()
		for {
			var damaged *DamageError
			_, err := r.Next()
			switch {
			case errors.Is(err, io.EOF):
				return damage, lines, r.Cursor()
			case errors.As(err, &damaged):
				damage++
			case err != nil:
				t.Fatal(err)
			default:
				lines++
			}
		}
	}
	continueSpool := func(dir string, from int) {
		writeSpool(t, dir, Limits{}, denials(from, 3))
	}
	continueSpool(dir, 200)
	damage, lines, at := read(dir, Cursor{})
	if damage != 0 || lines != 10 || at.Hash == "" {
		t.Errorf("%d %d %+v", damage, lines, at)
	}
	continueSpool(copied+"/audit", 300) // of the same length
	continueSpool(copied+"/audit", 400)
	if damage, lines, _ := read(copied+"/audit", at); damage != 1 || lines != 5 {
		t.Errorf("%d %d", damage, lines)
	}
	continueSpool(dir, 400)
	if damage, lines, _ := read(dir, at); damage != 0 || lines != 5 {
		t.Errorf("%d %d", damage, lines)
	}
}

// TestReaderOfAnother checks that a reader reports a different spool and continues at its beginning, and reports an older copy and
// continues at its end.
func TestReaderOfAnother(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendAll(t, s, denials(0, 2))
	older := head{}
	if h, err := readHead(dir); err != nil {
		t.Fatal(err)
	} else {
		older = h
	}
	appendAll(t, s, denials(2, 2))
	closeSpool(t, s)
	at := readAll(t, dir, Cursor{})

	writeFile(t, filepath.Join(dir, headName), older.line())
	r := NewReader(dir, at)
	defer r.Close()
	var damage *DamageError
	if _, err := r.Next(); !errors.As(err, &damage) || r.Cursor().Offset != older.End.Offset {
		t.Errorf("%v %+v", err, r.Cursor())
	}

	other := t.TempDir()
	s = writeSpool(t, other, Limits{}, denials(0, 1))
	r = NewReader(other, at)
	defer r.Close()
	var replaced *ReplacedError
	if _, err := r.Next(); !errors.As(err, &replaced) || replaced.Before != at.Chain || replaced.Now != s.stream.ID {
		t.Fatalf("%v", err)
	}
	if line, err := r.Next(); err != nil || r.Cursor().Sequence != 1 {
		t.Errorf("%v: %s", err, line)
	}
}

// readAll reads to the end.
func readAll(t *testing.T, dir string, from Cursor) Cursor {
	t.Helper()
	r := NewReader(dir, from)
	defer r.Close()
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return r.Cursor()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReaders checks that the group can read the events and the head, and not the key.
func TestReaders(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "audit")
	fillSpool(t, dir)
	if got := rights(t, filepath.Join(dir, headName)); got != "-rw------- 0" {
		t.Errorf("without a group: %s", got)
	}
	const group = 4711
	s, err := Open(Config{Folder: dir, Readers: group, Limits: Limits{FileSize: 4 << 10, Size: 1 << 20}})
	must(t, err)
	appendAll(t, s, denials(0, 100))
	closeSpool(t, s)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 5 {
		t.Fatal(entries, err)
	}
	want := map[string]string{keyName: "-rw------- 0", "lock": "-rw------- 0", usageName: "-rw------- 0"}
	for _, e := range entries {
		is := "-rw-r----- 4711"
		if w := want[e.Name()]; w != "" {
			is = w
		}
		if got := rights(t, filepath.Join(dir, e.Name())); got != is {
			t.Errorf("%s: %s, not %s", e.Name(), got, is)
		}
	}
	if got := rights(t, dir); got != "drwxr-x--- 4711" {
		t.Error(got)
	}
}

func rights(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	return fmt.Sprint(info.Mode(), " ", info.Sys().(*syscall.Stat_t).Gid)
}
