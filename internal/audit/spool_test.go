package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

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
