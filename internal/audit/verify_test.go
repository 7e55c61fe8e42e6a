package audit

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

// cutLast cuts the last line.
func cutLast(l [][]byte) [][]byte {
	n := len(l) - 1
	l[n] = l[n][:50]
	return l
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
	type records = [][]byte
	type doing = func(t *testing.T, dir, file string)
	lines := func(do func(records) records) doing { return func(t *testing.T, _, f string) { change(t, f, do) } }
	lastLines := func(do func(records) records) doing {
		return func(t *testing.T, dir, _ string) { change(t, lastFile(t, dir), do) }
	}
	removeFile := func(name string) doing {
		return func(t *testing.T, dir, _ string) { remove(t, filepath.Join(dir, name)) }
	}
	removeLast := func(t *testing.T, dir, _ string) { remove(t, lastFile(t, dir)) }
	continued := func(do doing) doing {
		return func(t *testing.T, dir, f string) {
			do(t, dir, f)
			writeSpool(t, dir, small, denials(0, 1))
		}
	}
	insertAtEnd := func(t *testing.T, dir, _ string) {
		change(t, lastFile(t, dir), func(l records) records { return append(l, forgedAfter(t, l[len(l)-1], 1)) })
	}
	for name, c := range map[string]struct {
		do    doing
		place string // file:line of a problem
		says  string
	}{
		"edited":                           {lines(func(l records) records { l[3] = edit(l[3]); return l }), first + ":4", "record 4 isn't as it was written"},
		"link edited":                      {lines(func(l records) records { l[4] = relink(l[4], hash{1}); return l }), first + ":5", "record 5 isn't as it was written"},
		"link edited with its fingerprint": {lines(func(l records) records { l[4] = refinger(relink(l[4], hash{1})); return l }), first + ":4", "or the link to it in " + first + ":5"},
		"edited with its fingerprint":      {lines(func(l records) records { l[3] = refinger(edit(l[3])); return l }), first + ":4", "record 4 isn't as it was written, or the link to it in " + first + ":5"},
		"fingerprint edited":               {lines(func(l records) records { l[3][len(l[3])-len(fingerprintEnd)-1] ^= 1; return l }), first + ":4", "record 4 isn't as it was written"},
		"first link edited": {lines(func(l records) records {
			first, _ := parseLink(l[0])
			l[0] = forgeRecord(link{chain: first.chain, sequence: 1, previous: hash{1}}, nil)
			return rechain(l, 1)
		}), first + ":1", "this isn't the spool's first record"},
		"another spool's record": {lines(func(l records) records {
			l[3] = forgeRecord(link{chain: "other", sequence: 4, previous: hashOf(l[2])}, nil)
			return rechain(l, 4)
		}), first + ":4", "is of another spool"},
		"garbage": {lines(func(l records) records { l[3] = []byte("x\n"); return l }), first + ":4", "isn't a record of a spool"},
		"first line edited": {lines(func(l records) records {
			l[0] = bytes.Replace(l[0], []byte("opened"), []byte("0pened"), 1)
			return l
		}), first + ":1", "record 1 isn't"},
		"line removed":             {lines(func(l records) records { return slices.Delete(l, 3, 4) }), first + ":4", "record 4 is missing before this record, 5"},
		"lines removed":            {lines(func(l records) records { return slices.Delete(l, 3, 6) }), first + ":4", "records 4 to 6 are missing before this record, 7"},
		"first line removed":       {lines(func(l records) records { return l[1:] }), first + ":1", "begins with record 1, and this is record 2"},
		"lines swapped":            {lines(func(l records) records { l[3], l[5] = l[5], l[3]; return l }), first + ":5", "this is record 5, where record 7 belongs"},
		"line doubled":             {lines(func(l records) records { return slices.Insert(l, 4, l[3]) }), first + ":5", "this is record 4, where record 5 belongs"},
		"edited and chained again": {lines(func(l records) records { l[3] = refinger(edit(l[3])); return rechain(l, 4) }), first + ":", "signature of this checkpoint is invalid"},
		"file cut at a line":       {lines(func(l records) records { return l[:5] }), second + ":1", "are missing before this record"},
		"last line edited": {lastLines(func(l records) records {
			n := len(l) - 1
			l[n] = refinger(bytes.Replace(l[n], []byte(`"what":"closed"`), []byte(`"what":"cl0sed"`), 1))
			return l
		}), ":", "the head signs another one"},
		"end cut":                              {lastLines(func(l records) records { return l[:len(l)-1] }), ":", "is truncated here"},
		"end cut within a line":                {lastLines(cutLast), ":", "isn't a record of a spool"},
		"first file removed":                   {removeFile(first), second + ":1", "the records before it are missing"},
		"first file removed, which has a name": {removeFile(first), first + ":0", "the file is missing"},
		"middle file removed":                  {removeFile(second), second + ":0", "the file is missing"},
		"last file removed":                    {removeLast, ":", "truncated here"},
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
		"head removed": {removeFile(headName), "head:0", "the file is missing"},
		"head damaged": {func(t *testing.T, dir, _ string) {
			change(t, filepath.Join(dir, headName), func(l records) records { return [][]byte{[]byte("{\n")} })
		}, "head:0", "the file is damaged"},
		"head of no spool": {func(t *testing.T, dir, _ string) {
			writeFile(t, filepath.Join(dir, headName), head{}.line())
		}, "head:0", "the file is damaged"},
		"head edited": {func(t *testing.T, dir, _ string) {
			change(t, filepath.Join(dir, headName), func(l records) records {
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
		"key replaced": {continued(removeFile(keyName)), ":", "the key was replaced"},
		// Changes while the spool was closed are detected after it was continued.
		"end cut and continued":             {continued(lastLines(func(l records) records { return l[:len(l)-2] })), ":", "are missing before this record"},
		"edited and continued":              {continued(lastLines(func(l records) records { l[1] = append([]byte(" "), l[1]...); return l })), ":2", "isn't as it was written"},
		"last file removed and continued":   {continued(removeLast), ":1", "are missing before this record"},
		"inserted at the end":               {insertAtEnd, ":", "this was inserted"},
		"inserted at the end and continued": {continued(insertAtEnd), ":1", "records were moved or inserted"},
		"file inserted": {func(t *testing.T, dir, _ string) {
			list, _ := files(dir)
			change(t, lastFile(t, dir), func(l records) records {
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
