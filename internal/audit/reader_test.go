package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
		"a file's end":   {func(t *testing.T, dir string, _ uint64) { change(t, filepath.Join(dir, fileName(1)), cutLast) }, 1},
		"the end":        {func(t *testing.T, dir string, last uint64) { change(t, filepath.Join(dir, fileName(last)), cutLast) }, 2}, // and the end isn't where it was
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
			read, damaged, r := readAll(t, dir, Cursor{}, fresh)
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
	continueSpool := func(dir string, from int) { writeSpool(t, dir, Limits{}, denials(from, 3)) }
	continueSpool(dir, 200)
	lines, damage, end := readAll(t, dir, Cursor{}, false)
	at := end.Cursor()
	if damage != 0 || lines != 10 || at.Hash == "" {
		t.Errorf("%d %d %+v", damage, lines, at)
	}
	continueSpool(copied+"/audit", 300) // of the same length
	continueSpool(copied+"/audit", 400)
	if lines, damage, _ := readAll(t, copied+"/audit", at, false); damage != 1 || lines != 5 {
		t.Errorf("%d %d", damage, lines)
	}
	continueSpool(dir, 400)
	if lines, damage, _ := readAll(t, dir, at, false); damage != 0 || lines != 5 {
		t.Errorf("%d %d", damage, lines)
	}
}

// TestReaderOfAnother checks that a reader reports a different spool and continues at its beginning, and reports an older copy and
// continues at its end.
func TestReaderOfAnother(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendAll(t, s, denials(0, 2))
	older, err := readHead(dir)
	must(t, err)
	appendAll(t, s, denials(2, 2))
	closeSpool(t, s)
	_, damaged, end := readAll(t, dir, Cursor{}, false)
	at := end.Cursor()
	if damaged > 0 {
		t.Fatalf("%d are damaged", damaged)
	}

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

// readAll reads to the end, at most 1000 lines, with a new reader for each one if fresh. It returns the closed reader.
func readAll(t *testing.T, dir string, from Cursor, fresh bool) (lines, damaged int, r *Reader) {
	t.Helper()
	r = NewReader(dir, from)
	defer func() { r.Close() }()
	for lines+damaged < 1000 {
		_, err := r.Next()
		var damage *DamageError
		switch {
		case errors.Is(err, io.EOF):
			return lines, damaged, r
		case errors.As(err, &damage):
			damaged++
		case err != nil:
			t.Fatal(err)
		default:
			lines++
		}
		if fresh {
			r.Close()
			r = NewReader(dir, r.Cursor())
		}
	}
	return lines, damaged, r
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
