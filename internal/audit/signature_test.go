package audit

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// TestPinnedKey checks that a spool that was rewritten with another key is valid by itself, and invalid for a known key.
func TestPinnedKey(t *testing.T) {
	real, forged := t.TempDir(), t.TempDir()
	fillSpool(t, real)
	fillSpool(t, forged)
	keys := sound(t, real).Keys
	for _, key := range keys {
		r, err := Verify(real, key, noProgress)
		if err != nil || len(r.Problems) > 0 {
			t.Errorf("%v %+v", err, r.Problems)
		}
		r, err = Verify(forged, key, noProgress)
		if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "another process wrote it") {
			t.Errorf("%v %+v", err, r.Problems)
		}
	}
}

// TestNamedKey checks that it isn't sufficient to name a known key as the next one.
func TestNamedKey(t *testing.T) {
	real, forged := t.TempDir(), t.TempDir()
	fillSpool(t, real)
	first := sound(t, real).Keys[0]
	s := open(t, forged, Limits{})
	appendAll(t, s, denials(0, 3))
	s.checkpoint("end of file", first)
	must(t, errors.Join(s.commit(), s.release()))
	r, err := Verify(forged, first, noProgress)
	if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "another process wrote it") {
		t.Errorf("%v %+v", err, r.Problems)
	}
}

// TestOldKey checks the problem for a key whose files the spool has removed: it names no other writer.
func TestOldKey(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, dropping)
	old := s.key.public()
	for range 20 {
		appendAll(t, s, denials(0, 30))
	}
	closeSpool(t, s)
	r := sound(t, dir)
	if r.Removed == 0 {
		t.Fatal("nothing was removed")
	}
	last := r.Keys[len(r.Keys)-1]
	if r, err := Verify(dir, last, noProgress); err != nil || len(r.Problems) != 0 {
		t.Errorf("%v %+v", err, r.Problems)
	}
	r, err := Verify(dir, old, noProgress)
	if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "note a newer key") || strings.Contains(r.Problems[0].Text, "another process wrote it") {
		t.Errorf("%v %+v", err, r.Problems)
	}
}

// TestFarFile checks that a distant file number is reported at once, and that the number of listed problems is limited.
func TestFarFile(t *testing.T) {
	dir := t.TempDir()
	fillSpool(t, dir)
	writeFile(t, filepath.Join(dir, fileName(math.MaxInt64)), nil)
	list, _ := files(dir)
	want := fmt.Sprintf("this file and %d more", math.MaxInt64-list[len(list)-2]-2)
	if r := verifySpool(t, dir); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, want) {
		t.Errorf("%+v, want %s", r.Problems, want)
	}
	writeFile(t, filepath.Join(dir, fileName(1)), []byte(strings.Repeat("x\n", maxProblems)))
	if r := verifySpool(t, dir); len(r.Problems) != maxProblems || r.Omitted < 1 || r.Omitted > 9 {
		t.Errorf("%d problems, %d omitted", len(r.Problems), r.Omitted)
	}
}

// TestNothingWritten checks that a writer that was killed before it wrote anything is reported.
func TestNothingWritten(t *testing.T) {
	dir := t.TempDir()
	writeSpool(t, dir, Limits{}, denials(0, 3))
	_ = open(t, dir, Limits{}).release()
	writeSpool(t, dir, Limits{}, denials(3, 1))
	if r := sound(t, dir); r.Inexact != 1 {
		t.Errorf("%+v", r)
	}
}

// TestNoHead checks that without a head, records without a signature are reported.
func TestNoHead(t *testing.T) {
	dir := t.TempDir()
	s := writeSpool(t, dir, Limits{}, denials(0, 3))
	text := readFile(t, lastFile(t, dir))
	lines := bytes.SplitAfter(text, []byte("\n"))
	add(t, lastFile(t, dir), string(forgedAfter(t, lines[len(lines)-2], 1)))
	remove(t, s.path(headName))
	writeSpool(t, dir, Limits{}, denials(3, 1))
	if list, _ := files(dir); len(list) != 1 {
		t.Error(list)
	}
	if text := readFile(t, lastFile(t, dir)); !bytes.Contains(text, []byte("record 6 is kept without a signature")) {
		t.Errorf("%s", text)
	}
	change(t, lastFile(t, dir), func(l [][]byte) [][]byte { l[1][9]++; return l })
	remove(t, s.path(headName))
	writeSpool(t, dir, Limits{}, denials(4, 1))
	if r := verifySpool(t, dir); len(r.Problems) != 1 || r.Problems[0].Line != 2 {
		t.Errorf("%+v", r)
	}
}

// TestSignature checks that only a signature of the exact text verifies, and that only a valid file is a key.
func TestSignature(t *testing.T) {
	k := newKey(make([]byte, 32))
	public, signature := k.public(), k.sign("text")
	for _, c := range []struct {
		public, text, signature string
		want                    bool
	}{
		{public, "text", signature, true},
		{public, "text", signature + "xx", false},
		{public + "xx", "text", signature, false},
		{public[2:], "text", signature, false},
		{public, "test", signature, false},
		{k.next().public(), "text", signature, false},
		{"", "text", signature, false},
	} {
		if got := verify(c.public, c.text, c.signature); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
	seed := hex.EncodeToString(make([]byte, 32))
	for text, want := range map[string]bool{seed + "\n": true, seed[2:]: false, seed + "00": false, seed + "x": false, "": false, strings.Repeat("0", 2000): false} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, keyName), []byte(text))
		if got, err := loadKey(dir); (err == nil) != want || want && got.public() != public || !want && !strings.Contains(err.Error(), "restore it from a copy") {
			t.Errorf("%.70q: %v", text, err)
		}
	}
}

// TestUnfinished checks that an interrupted write and unsigned records aren't problems.
func TestUnfinished(t *testing.T) {
	for _, rest := range []string{"{torn", string(forgeRecord(link{chain: "other", sequence: 9}, nil))} {
		dir := t.TempDir()
		s := open(t, dir, Limits{})
		appendAll(t, s, denials(0, 3))
		for i := range 3 {
			s.add(&denials(i, 1)[0])
		}
		add(t, s.path(fileName(1)), string(s.buf)+rest)
		release(t, s)
		if r := sound(t, dir); r.Unsigned != 3 || r.Unfinished != int64(len(rest)) {
			t.Errorf("%+v", r)
		}
	}
}

// TestVerifyWhileWriting verifies while files are created and removed.
func TestVerifyWhileWriting(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Size: 64 << 10, Drop: true})
	appendAll(t, s, denials(0, 1))
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- s.Close()
				return
			default:
				if _, err := s.Append(denials(0, 5)); err != nil {
					<-stop
					done <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	removed := uint64(0)
	for n := 0; (n < 100 || removed == 0) && !t.Failed(); n++ {
		r := verifySpool(t, dir)
		if len(r.Problems) > 0 {
			t.Errorf("%+v", r.Problems)
		}
		removed = max(removed, r.Removed)
	}
	close(stop)
	must(t, <-done)
	sound(t, dir)
}

// TestHostileFolder checks that files that aren't regular neither block a reader nor are read without end, and that quotations are
// short.
func TestHostileFolder(t *testing.T) {
	for name, put := range map[string]func(file string) error{
		"fifo":    func(f string) error { return syscall.Mkfifo(f, 0o600) },
		"symlink": func(f string) error { return os.Symlink("/dev/zero", f) },
		"folder":  func(f string) error { return os.Mkdir(f, 0o700) },
	} {
		for _, file := range []string{fileName(1), headName} {
			dir := t.TempDir()
			s := writeSpool(t, dir, Limits{}, denials(0, 3))
			remove(t, s.path(file))
			must(t, put(s.path(file)))
			if r, err := Verify(dir, "", noProgress); err == nil {
				t.Errorf("%s %s: %+v", name, file, r)
			}
			if _, err := Open(Config{Folder: dir}); err == nil {
				t.Errorf("%s %s is opened", name, file)
			}
			lines := NewReader(dir, Cursor{})
			if line, err := lines.Next(); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%s %s: %s %v", name, file, line, err)
			}
			lines.Close()
		}
	}
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	s.pendingGaps = append(s.pendingGaps, event.Event{Kind: event.Gap, Mechanism: "spool", Extra: map[string]string{
		"first": "1", "last": "2", "why": strings.Repeat("x", 4000) + foreignRemoval,
	}})
	appendAll(t, s, denials(0, 3))
	closeSpool(t, s)
	r := verifySpool(t, dir)
	if text := fmt.Sprint(r.Problems, r.RemovedWhy); len(r.Problems) != 1 || len(text) > 3*maxQuoted {
		t.Errorf("%d problems in %d bytes", len(r.Problems), len(text))
	}
}
