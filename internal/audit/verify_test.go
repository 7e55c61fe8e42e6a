package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit/report"
	"github.com/toolguard/toolguard/internal/event"
)

// hashOf returns the fingerprint in a line.
func hashOf(line []byte) (h hash) {
	_, h, _ = cutHash(line, fingerprintStart, fingerprintEnd)
	return h
}

// change rewrites a file's lines.
func change(t testing.TB, file string, do func([][]byte) [][]byte) {
	t.Helper()
	text := readFile(t, file)
	writeFile(t, file, bytes.Join(do(slices.Collect(bytes.Lines(bytes.Clone(text)))), nil))
}

// rechain makes the links and fingerprints valid from line n, as an attacker without the key can.
func rechain(lines [][]byte, n int) [][]byte {
	for i := n; i < len(lines); i++ {
		lines[i] = refinger(relink(lines[i], hashOf(lines[i-1])))
	}
	return lines
}

// relink replaces a line's link, and refinger computes the fingerprint.
func relink(line []byte, previous hash) []byte {
	text, own, _ := cutHash(line, fingerprintStart, fingerprintEnd)
	text, _, _ = cutHash(text, fingerprintStart, previousEnd)
	return []byte(string(text) + fingerprintStart + previous.String() + previousEnd + fingerprintStart + own.String() + fingerprintEnd)
}

func refinger(line []byte) []byte {
	text, _, _ := cutHash(line, fingerprintStart, fingerprintEnd)
	own := hash(sha256.Sum256([]byte(string(text) + eventEnd)))
	return []byte(string(text) + fingerprintStart + own.String() + fingerprintEnd)
}

// TestTampering checks that each change is detected, and where.
func TestTampering(t *testing.T) {
	const first, second = "000000000001.jsonl", "000000000002.jsonl"
	edit := func(line []byte) []byte { return bytes.Replace(line, []byte("/secret/"), []byte("/public/"), 1) }
	for name, c := range map[string]struct {
		do    func(t *testing.T, dir, file string)
		place string // file:line of a problem
		says  string
	}{
		"edited": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[3] = edit(l[3]); return l })
		}, first + ":4", "record 4 isn't as it was written"},
		"link edited": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[4] = relink(l[4], hash{1}); return l })
		}, first + ":5", "record 5 isn't as it was written"},
		"link edited with its fingerprint": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[4] = refinger(relink(l[4], hash{1})); return l })
		}, first + ":4", "or the link to it in " + first + ":5"},
		"edited with its fingerprint": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[3] = refinger(edit(l[3])); return l })
		}, first + ":4", "record 4 isn't as it was written, or the link to it in " + first + ":5"},
		"fingerprint edited": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[3][len(l[3])-len(fingerprintEnd)-1] ^= 1; return l })
		}, first + ":4", "record 4 isn't as it was written"},
		"first link edited": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte {
				first, _ := parseLink(l[0])
				l[0] = forgeRecord(link{chain: first.chain, sequence: 1, previous: hash{1}}, nil)
				return rechain(l, 1)
			})
		}, first + ":1", "this isn't the spool's first record"},
		"another spool's record": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte {
				l[3] = forgeRecord(link{chain: "other", sequence: 4, previous: hashOf(l[2])}, nil)
				return rechain(l, 4)
			})
		}, first + ":4", "is of another spool"},
		"garbage": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[3] = []byte("x\n"); return l })
		}, first + ":4", "isn't a record of a spool"},
		"first line edited": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[0] = bytes.Replace(l[0], []byte("opened"), []byte("0pened"), 1); return l })
		}, first + ":1", "record 1 isn't"},
		"line removed": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) })
		}, first + ":4", "record 4 is missing before this record, 5"},
		"lines removed": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { return slices.Delete(l, 3, 6) })
		}, first + ":4", "records 4 to 6 are missing before this record, 7"},
		"first line removed": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { return l[1:] })
		}, first + ":1", "begins with record 1, and this is record 2"},
		"lines swapped": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[3], l[5] = l[5], l[3]; return l })
		}, first + ":5", "this is record 5, where record 7 belongs"},
		"line doubled": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { return slices.Insert(l, 4, l[3]) })
		}, first + ":5", "this is record 4, where record 5 belongs"},
		"edited and chained again": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { l[3] = refinger(edit(l[3])); return rechain(l, 4) })
		}, first + ":", "signature of this checkpoint is invalid"},
		"file cut at a line": {func(t *testing.T, _, f string) {
			change(t, f, func(l [][]byte) [][]byte { return l[:5] })
		}, second + ":1", "are missing before this record"},
		"last line edited": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte {
				n := len(l) - 1
				l[n] = refinger(bytes.Replace(l[n], []byte(`"what":"closed"`), []byte(`"what":"cl0sed"`), 1))
				return l
			})
		}, ":", "the head signs another one"},
		"end cut": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte { return l[:len(l)-1] })
		}, ":", "is truncated here"},
		"end cut within a line": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte { n := len(l) - 1; l[n] = l[n][:50]; return l })
		}, ":", "isn't a record of a spool"},
		"first file removed": {func(t *testing.T, _, f string) {
			remove(t, f)
		}, second + ":1", "the records before it are missing"},
		"first file removed, which has a name": {func(t *testing.T, _, f string) {
			remove(t, f)
		}, first + ":0", "the file is missing"},
		"middle file removed": {func(t *testing.T, dir, _ string) {
			remove(t, filepath.Join(dir, second))
		}, second + ":0", "the file is missing"},
		"last file removed": {func(t *testing.T, dir, _ string) {
			remove(t, lastFile(t, dir))
		}, ":", "truncated here"},
		"all files removed": {func(t *testing.T, dir, _ string) {
			list, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
			for _, f := range list {
				remove(t, f)
			}
		}, ":", "truncated here"},
		"files swapped": {func(t *testing.T, dir, f string) {
			g := filepath.Join(dir, second)
			must(t, os.Rename(f, f+".x"))
			must(t, os.Rename(g, f))
			must(t, os.Rename(f+".x", g))
		}, second + ":1", "this is record 1, where record"},
		"head removed": {func(t *testing.T, dir, _ string) {
			remove(t, filepath.Join(dir, headName))
		}, "head:0", "the file is missing"},
		"head damaged": {func(t *testing.T, dir, _ string) {
			change(t, filepath.Join(dir, headName), func(l [][]byte) [][]byte { return [][]byte{[]byte("{\n")} })
		}, "head:0", "the file is damaged"},
		"head of no spool": {func(t *testing.T, dir, _ string) {
			writeFile(t, filepath.Join(dir, headName), head{}.line())
		}, "head:0", "the file is damaged"},
		"head edited": {func(t *testing.T, dir, _ string) {
			change(t, filepath.Join(dir, headName), func(l [][]byte) [][]byte {
				l[0] = bytes.Replace(l[0], []byte(`"sequence":1`), []byte(`"sequence":2`), 1)
				return l
			})
		}, "head:0", "the signature is invalid"},
		"another spool's file": {func(t *testing.T, _, f string) {
			other := t.TempDir()
			fillSpool(t, other)
			text := readFile(t, filepath.Join(other, first))
			writeFile(t, f, text)
		}, first + ":1", "is of another spool"},
		"key replaced": {func(t *testing.T, dir, _ string) {
			remove(t, filepath.Join(dir, keyName))
			writeSpool(t, dir, small, denials(0, 1))
		}, ":", "the key was replaced"},
		// Changes while the spool was closed are detected after it was continued.
		"end cut and continued": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte { return l[:len(l)-2] })
			writeSpool(t, dir, small, denials(0, 1))
		}, ":", "are missing before this record"},
		"edited and continued": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte { l[1] = append([]byte(" "), l[1]...); return l })
			writeSpool(t, dir, small, denials(0, 1))
		}, ":2", "isn't as it was written"},
		"last file removed and continued": {func(t *testing.T, dir, _ string) {
			remove(t, lastFile(t, dir))
			writeSpool(t, dir, small, denials(0, 1))
		}, ":1", "are missing before this record"},
		"inserted at the end": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte { return append(l, forgedAfter(t, l[len(l)-1], 1)) })
		}, ":", "this was inserted"},
		"inserted at the end and continued": {func(t *testing.T, dir, _ string) {
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte { return append(l, forgedAfter(t, l[len(l)-1], 1)) })
			writeSpool(t, dir, small, denials(0, 1))
		}, ":1", "records were moved or inserted"},
		"file inserted": {func(t *testing.T, dir, _ string) {
			list, _ := files(dir)
			change(t, lastFile(t, dir), func(l [][]byte) [][]byte {
				add(t, touch(t, dir, list[len(list)-1]+1), string(forgedAfter(t, l[len(l)-1], 1)))
				return l
			})
		}, ":1", "this was inserted"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fillSpool(t, dir)
			sound(t, dir)
			c.do(t, dir, filepath.Join(dir, first))
			r := verifySpool(t, dir)
			if !slices.ContainsFunc(r.Problems, func(p report.Problem) bool {
				return strings.Contains(fmt.Sprintf("%s:%d", p.File, p.Line), c.place) && strings.Contains(p.Text, c.says)
			}) {
				t.Errorf("%+v", r)
			}
			if name == "end cut and continued" && r.Lost != 2 || name == "garbage" && len(r.Problems) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// forgedAfter returns a record, n after another one and chained to it, as any process can write it.
func forgedAfter(t *testing.T, line []byte, n uint64) []byte {
	t.Helper()
	l, ok := parseLink(line)
	if !ok {
		t.Fatalf("%s", line)
	}
	return forgeRecord(link{chain: l.chain, sequence: l.sequence + n, previous: l.hash}, nil)
}

// forgeRecord returns a record with any link: a denial, or a checkpoint with a key.
func forgeRecord(l link, k *key) []byte {
	s := &Spool{stream: &event.Stream{ID: l.chain}, pendingUsage: userBytes{}}
	s.buffered = position{sequence: l.sequence - 1, hash: l.previous}
	if k != nil {
		s.key = *k
		s.checkpoint("opened", "")
	} else {
		s.add(&denials(0, 1)[0])
	}
	return s.buf
}

func touch(t *testing.T, dir string, number uint64) (file string) {
	t.Helper()
	file = filepath.Join(dir, fileName(number))
	writeFile(t, file, nil)
	return file
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return text
}

func writeFile(t testing.TB, name string, text []byte) {
	t.Helper()
	must(t, os.WriteFile(name, text, 0o600))
}

func remove(t *testing.T, file string) {
	t.Helper()
	must(t, os.Remove(file))
}

func lastFile(t *testing.T, dir string) string {
	t.Helper()
	list, err := files(dir)
	if err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	return filepath.Join(dir, fileName(list[len(list)-1]))
}

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
		end    func(*testing.T, *Spool)
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

func release(t *testing.T, s *Spool) {
	t.Helper()
	must(t, s.release())
}

// rotatedSpool returns a spool that has removed its oldest files.
func rotatedSpool(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, dropping)
	for range 20 {
		appendAll(t, s, denials(0, 30))
	}
	closeSpool(t, s)
	return dir
}

var dropping = Limits{Size: 200 << 10, FileSize: 20 << 10, Drop: true}

// TestForeignRemoval checks that files that another process has removed aren't attributed to the spool, even if it removes more.
func TestForeignRemoval(t *testing.T) {
	continueSpool := func(t *testing.T, dir string, n int) {
		s := open(t, dir, dropping)
		for range n {
			appendAll(t, s, denials(0, 30))
		}
		closeSpool(t, s)
	}
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
			continueSpool(t, dir, 1)
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
			continueSpool(t, dir, 5)
		}, "another process had removed", ""},
		"one between, and it goes on": {func(t *testing.T, dir string) {
			n, _ := oldest(dir)
			remove(t, filepath.Join(dir, fileName(n+1)))
			continueSpool(t, dir, 5)
		}, "another process had removed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := rotatedSpool(t)
			before := sound(t, dir)
			c.do(t, dir)
			r := verifySpool(t, dir)
			if c.says == "" && len(r.Problems) > 0 || !strings.Contains(fmt.Sprint(r.Problems), c.says) {
				t.Errorf("%+v", r)
			}
			var all []byte
			list, _ := files(dir)
			for _, n := range list {
				all = append(all, readFile(t, filepath.Join(dir, fileName(n)))...)
			}
			if r.Removed < before.Removed || before.RemovedWhy == "" || !bytes.Contains(all, []byte(c.reports)) {
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

// FuzzTampering checks that any change of a spool's files or its head is detected.
func FuzzTampering(f *testing.F) {
	dir := f.TempDir()
	fillSpool(f, dir)
	names, _ := filepath.Glob(filepath.Join(dir, "0*"))
	names = append(names, filepath.Join(dir, headName))
	f.Add(uint8(0), uint16(100), []byte("x"), uint8(1))
	f.Add(uint8(1), uint16(0), []byte(""), uint8(200))
	f.Add(uint8(255), uint16(9), []byte("7"), uint8(1))
	f.Fuzz(func(t *testing.T, which uint8, at uint16, put []byte, cut uint8) {
		name := names[int(which)%len(names)]
		text := readFile(t, name)
		from := int(at) % len(text)
		changed := slices.Concat(text[:from], put, text[min(len(text), from+int(cut)):])
		if bytes.Equal(bytes.TrimSpace(changed), bytes.TrimSpace(text)) {
			return
		}
		defer func() { _ = os.WriteFile(name, text, 0o600) }()
		writeFile(t, name, changed)
		r, err := Verify(dir, "", noProgress)
		if err == nil && len(r.Problems) == 0 && r.Unfinished == 0 {
			t.Errorf("%s: %d bytes at %d replaced by %q, and that isn't detected", filepath.Base(name), cut, from, put)
		}
	})
}

// FuzzVerify checks that any file and head are read to the end.
func FuzzVerify(f *testing.F) {
	dir := f.TempDir()
	fillSpool(f, dir)
	head, _ := os.ReadFile(filepath.Join(dir, headName))
	text, _ := os.ReadFile(filepath.Join(dir, fileName(1)))
	f.Add(text, head)
	f.Add([]byte(""), []byte("{}"))
	f.Add([]byte(linkStart+strings.Repeat("0", 64)+linkEnd), []byte(`{"chain":"x"}`))
	f.Add([]byte(uidStart+"8"+uidNext+`x-1"`+linkStart+strings.Repeat("0", 64)+linkEnd), []byte(`{"chain":"x","end":{"file":1}}`))
	f.Fuzz(func(t *testing.T, text, head []byte) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, fileName(1)), text)
		writeFile(t, filepath.Join(dir, headName), head)
		if _, err := Verify(dir, "", noProgress); err != nil {
			t.Error(err)
		}
		s, err := Open(Config{Folder: dir})
		must(t, err)
		if n, err := s.Append(denials(0, 1)); n != 1 || err != nil {
			t.Errorf("%d: %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		r := NewReader(dir, Cursor{})
		defer r.Close()
		for range 1000 {
			if _, err := r.Next(); err != nil && err.Error() == "EOF" {
				return
			}
		}
	})
}
