package audit

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestForeignRecords checks that a writer doesn't continue from foreign records, and reports them, or that the previous writer was
// killed.
func TestForeignRecords(t *testing.T) {
	of := func(chain string, more uint64, previous hash) func(link) []byte {
		return func(l link) []byte {
			if chain == "" {
				chain = l.chain
			}
			if previous == (hash{}) {
				previous = l.hash
			}
			return forgeRecord(link{chain: chain, sequence: l.sequence + more, previous: previous}, nil)
		}
	}
	for _, c := range []struct {
		what   string
		killed bool
		number uint64
		plant  func(l link) []byte
	}{
		{"a far record", false, 2, of("", math.MaxInt64-100, hash{})},
		{"the next record", false, 2, of("", 1, hash{})},
		{"a far file", false, math.MaxInt64, of("", 1, hash{})},
		{"a far file that is the next but for its number", true, 3, of("", 1, hash{})},
		{"the next one's next", true, 2, of("", 2, hash{})},
		{"another spool's", true, 2, of("other", 1, hash{})},
		{"one with another link", true, 2, of("", 1, hash{1})},
		{"the next one's next, in the file", true, 1, of("", 2, hash{})},
		{"another spool's, in the file", true, 1, of("other", 1, hash{})},
		{"one with another link, in the file", true, 1, of("", 1, hash{1})},
		{"a far record, in the file", true, 1, of("", maxRecordNumber, hash{})},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Limits{})
			appendAll(t, s, denials(0, 3))
			inexact := 1
			if c.killed {
				release(t, s)
			} else {
				closeSpool(t, s)
			}
			if c.killed && c.number > 1 {
				inexact = 2
			}
			lines := slices.Collect(bytes.Lines(readFile(t, s.path(fileName(1)))))
			last := lines[len(lines)-1]
			l, _ := parseLink(last)
			if c.number > 1 {
				touch(t, dir, c.number)
			}
			add(t, s.path(fileName(c.number)), string(c.plant(l)))
			writeSpool(t, dir, Limits{}, denials(3, 1))
			r := sound(t, dir)
			if got := targets(t, dir); !slices.Equal(got, []int{0, 1, 2, 3}) || r.Inexact != inexact || r.Lost != 0 || r.Last > 10 {
				t.Errorf("%v %+v", got, r)
			}
		})
	}
}

// TestForeignRecordsAfterEnd checks that foreign records after the end aren't mistaken for those of a writer that was killed or
// stopped before it wrote anything.
func TestForeignRecordsAfterEnd(t *testing.T) {
	record := func(s *Spool, l link) []byte { return forgeRecord(l, nil) }
	anothers := func(s *Spool, l link) []byte { k := newKey(make([]byte, 32)); return forgeRecord(l, &k) }
	unsigned := func(s *Spool, l link) []byte {
		return refinger(bytes.Replace(anothers(s, l), []byte(newKey(make([]byte, 32)).public()), []byte(s.key.public()), 1))
	}
	for name, c := range map[string]struct {
		filled int
		end    func(testing.TB, *Spool)
		number uint64
		plant  func(*Spool, link) []byte
	}{
		"killed, same file":                      {3, release, 1, record},
		"killed, next file":                      {3, release, 2, record},
		"stopped, same file":                     {3, closeSpool, 1, record},
		"stopped, next file":                     {3, closeSpool, 2, record},
		"killed, same file, another's signature": {3, release, 1, anothers},
		"killed, next file, another's signature": {3, release, 2, anothers},
		"killed, same file, a false signature":   {3, release, 1, unsigned},
		"killed, next file, a false signature":   {3, release, 2, unsigned},
		"none yet, killed":                       {0, release, 1, record},
		"none yet, stopped":                      {0, closeSpool, 1, record},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Limits{})
			if c.filled > 0 {
				appendAll(t, s, denials(0, c.filled))
				closeSpool(t, s)
				s = open(t, dir, Limits{})
			}
			c.end(t, s)
			next := link{chain: s.stream.ID, sequence: 1}
			if c.filled > 0 {
				last := slices.Collect(bytes.Lines(readFile(t, s.path(fileName(1)))))
				l, _ := parseLink(last[len(last)-1])
				next = link{chain: l.chain, sequence: l.sequence + 1, previous: l.hash}
			}
			if c.filled == 0 || c.number > 1 {
				touch(t, dir, c.number)
			}
			add(t, s.path(fileName(c.number)), string(c.plant(s, next)))
			if r := verifySpool(t, dir); !strings.Contains(fmt.Sprint(r.Problems), "this was inserted") {
				t.Errorf("%+v", r)
			}
			writeSpool(t, dir, Limits{}, denials(c.filled, 1))
			r := verifySpool(t, dir)
			text := readFile(t, lastFile(t, dir))
			if !bytes.Contains(text, []byte("isn't of this audit")) && !bytes.Contains(text, []byte("isn't as it was written")) ||
				bytes.Contains(text, []byte("kept without")) {
				t.Errorf("%+v\n%s", r, text)
			}
		})
	}
}

func release(t testing.TB, s *Spool) {
	t.Helper()
	must(t, s.release())
}

// dropping are limits of a spool that removes its oldest files.
var dropping = Limits{Size: 200 << 10, FileSize: 20 << 10, Drop: true}

// TestForeignRemoval checks that files that another process has removed aren't attributed to the spool, even if it removes more.
func TestForeignRemoval(t *testing.T) {
	oldest := func(dir string) (n uint64, file string) {
		list, _ := files(dir)
		return list[0], filepath.Join(dir, fileName(list[0]))
	}
	for name, c := range map[string]struct {
		do      func(t *testing.T, dir string)
		says    string // the problem; "": none
		reports string // by the spool itself
	}{
		"none":               {func(*testing.T, string) {}, "", "were removed to free space"},
		"one's that is back": {func(t *testing.T, dir string) { add(t, touch(t, dir, 1), "x\n") }, "", "were removed to free space"},
		"the oldest":         {func(t *testing.T, dir string) { _, f := oldest(dir); remove(t, f) }, "the records before it are missing", ""},
		"the oldest and the head": {func(t *testing.T, dir string) {
			_, f := oldest(dir)
			remove(t, f)
			remove(t, filepath.Join(dir, headName))
			appendMany(t, dir, dropping, 1)
		}, "no record reports that the spool removed the records", ""},
		"the oldest, and a head that says so": {func(t *testing.T, dir string) {
			n, f := oldest(dir)
			remove(t, f)
			s := open(t, dir, dropping)
			p, err := s.inspectFile(n + 1)
			must(t, err)
			s.begin = recordPosition{n + 1, 0, p.first.sequence - 1, p.first.previous.String()}
			appendAll(t, s, denials(0, 1))
			closeSpool(t, s)
		}, "no record reports that the spool removed the records", ""},
		"the oldest, and it goes on": {func(t *testing.T, dir string) {
			_, f := oldest(dir)
			remove(t, f)
			appendMany(t, dir, dropping, 5)
		}, "another process had removed", ""},
		"one between, and it goes on": {func(t *testing.T, dir string) {
			n, _ := oldest(dir)
			remove(t, filepath.Join(dir, fileName(n+1)))
			appendMany(t, dir, dropping, 5)
		}, "another process had removed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			appendMany(t, dir, dropping, 20)
			before := sound(t, dir)
			c.do(t, dir)
			r := verifySpool(t, dir)
			if c.says == "" && len(r.Problems) > 0 || !strings.Contains(fmt.Sprint(r.Problems), c.says) {
				t.Errorf("%+v", r)
			}
			if r.Removed < before.Removed || before.RemovedWhy == "" || !bytes.Contains(allRecords(t, dir), []byte(c.reports)) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// simulatePowerLoss ends a spool with the synced records and an older head.
func simulatePowerLoss(t *testing.T, s *Spool, head []byte) {
	t.Helper()
	_ = s.release()
	writeFile(t, s.path(headName), head)
}

// TestUnsigned checks that the records after a crash are kept, and that those without a signature are reported.
func TestUnsigned(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendAll(t, s, denials(0, 1))
	must(t, s.rotate())
	head := readFile(t, s.path(headName))
	for i := range 10 {
		appendAll(t, s, denials(1+i, 1))
	}
	simulatePowerLoss(t, s, head)
	writeSpool(t, dir, Limits{}, denials(11, 1))
	if got := targets(t, dir); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
		t.Error(got)
	}
	if r := sound(t, dir); r.Lost != 0 || r.Inexact != 1 {
		t.Errorf("%+v", r)
	}
	if text := readFile(t, lastFile(t, dir)); !bytes.Contains(text, []byte("kept without a signature")) {
		t.Errorf("%s", text)
	}
}

// TestPowerLoss checks that synced records count even if the head on the disk is older.
func TestPowerLoss(t *testing.T) {
	for _, before := range []int{0, 3} {
		dir := t.TempDir()
		if before > 0 {
			writeSpool(t, dir, Limits{}, denials(0, before))
		}
		s := open(t, dir, Limits{})
		head := readFile(t, s.path(headName))
		appendAll(t, s, denials(before, 5))
		appendAll(t, s, denials(before+5, 5))
		simulatePowerLoss(t, s, head)
		sound(t, dir)
		writeSpool(t, dir, Limits{}, denials(before+10, 1))
		if r := sound(t, dir); r.Lost != 0 || r.Inexact != 1 || r.Files != 1 {
			t.Errorf("%+v", r)
		}
		if got := targets(t, dir); len(got) != before+11 || !slices.IsSorted(got) {
			t.Error(got)
		}
	}
}

// TestForeignHead checks that a head with another key's signature isn't trusted, and is reported.
func TestForeignHead(t *testing.T) {
	for name, forge := range map[string]func(dir string, old, h *head) error{
		"cut back": func(dir string, old, h *head) error {
			*h = *old
			return os.Truncate(filepath.Join(dir, fileName(1)), old.End.Offset)
		},
		"nothing written": func(dir string, old, h *head) error {
			h.End, h.Closed = h.Begin, false
			return os.Truncate(filepath.Join(dir, fileName(1)), old.End.Offset)
		},
		"far away": func(_ string, _, h *head) error {
			h.End.Sequence, h.End.File = math.MaxInt64, 1<<32
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeSpool(t, dir, Limits{}, denials(0, 3))
			old, err := readHead(dir)
			must(t, err)
			s := writeSpool(t, dir, Limits{}, denials(3, 3))
			h, err := readHead(dir)
			if err == nil {
				err = forge(dir, &old, &h)
			}
			must(t, err)
			f, err := os.OpenFile(s.path(headName), os.O_WRONLY, 0)
			if err == nil {
				err = errors.Join(h.write(f, newKey(make([]byte, 32))), f.Close())
			}
			must(t, err)
			if r := verifySpool(t, dir); len(r.Problems) == 0 {
				t.Errorf("%+v", r)
			}
			writeSpool(t, dir, Limits{}, denials(9, 1))
			if r := sound(t, dir); r.Inexact != 1 || r.Last > 20 {
				t.Errorf("%+v", r)
			}
			if got := targets(t, dir); got[len(got)-1] != 9 {
				t.Error(got)
			}
			if text := readFile(t, lastFile(t, dir)); !bytes.Contains(text, []byte("not signed with the audit's key")) {
				t.Errorf("%s", text)
			}
		})
	}
}

// TestForgedHead checks that a writer that is killed before it writes anything hasn't signed a forged head.
func TestForgedHead(t *testing.T) {
	for _, closed := range []bool{true, false} {
		dir := t.TempDir()
		s := open(t, dir, Limits{})
		appendAll(t, s, denials(0, 3))
		old, err := readHead(dir)
		must(t, err)
		appendAll(t, s, denials(3, 3))
		release(t, s)
		release(t, open(t, dir, Limits{})) // twice killed is sound
		sound(t, dir)
		must(t, os.Truncate(s.path(fileName(1)), old.End.Offset))
		old.Closed, old.Opened = closed, !closed
		writeFile(t, s.path(headName), old.line())
		release(t, open(t, dir, Limits{}))
		if r := verifySpool(t, dir); len(r.Problems) == 0 {
			t.Errorf("closed %v: %+v", closed, r)
		}
	}
}
