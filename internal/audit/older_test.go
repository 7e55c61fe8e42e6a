package audit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// copyOlder returns a copy of an audit that toolguardd 0.1.0 has written, in OCSF 1.8.
func copyOlder(t *testing.T) (dir string) {
	t.Helper()
	parent := t.TempDir()
	must(t, os.CopyFS(parent, os.DirFS("testdata/ocsf-1.8")))
	return filepath.Join(parent, "audit")
}

// TestOlderVersion checks that an older version's audit is read and verified as it is, and continued in the same file in OCSF 1.9.
func TestOlderVersion(t *testing.T) {
	const key = "eebe285e8f209c387529f81315f3ce886dde98f1bf03666f1768346b995b2a1c" // its first key
	read := func(dir string) (versions string) {
		r := NewReader(dir, Cursor{})
		defer r.Close()
		for {
			line, err := r.Next()
			if errors.Is(err, io.EOF) {
				return versions
			}
			must(t, err)
			e, err := event.Parse(line)
			must(t, err)
			format := event.OCSF
			if event.OCSF18.PassesThrough(line) {
				format = event.OCSF18
			}
			if got := format.Append(nil, &e); !bytes.Equal(got, line) {
				t.Errorf("%v of %s is\n%s", format, line, got)
			}
			versions += map[event.Format]string{event.OCSF18: "8", event.OCSF: "9"}[format]
		}
	}
	dir := copyOlder(t)
	if r, err := Verify(dir, key, noProgress); err != nil || len(r.Problems) > 0 || r.Records != 11 || r.Last != 11 || r.Lost != 3 {
		t.Errorf("%v %+v", err, r)
	}
	if got := read(dir); got != "88888888888" {
		t.Error(got)
	}
	writeSpool(t, dir, Limits{FileAge: 100 * 365 * 24 * time.Hour}, denials(0, 3)) // the last file gets older each day
	if r, err := Verify(dir, key, noProgress); err != nil || len(r.Problems) > 0 || r.Records != 16 || r.Files != 2 || r.Lost != 3 || r.Inexact != 0 {
		t.Errorf("%v %+v", err, r)
	}
	if got := read(dir); got != "8888888888899999" {
		t.Error(got)
	}
	file := lastFile(t, dir)
	text := readFile(t, file)
	for at := 0; at < len(text); at += 41 {
		text[at] ^= 1
		writeFile(t, file, text)
		if r, err := Verify(dir, key, noProgress); err == nil && len(r.Problems) == 0 {
			t.Fatalf("byte %d was changed, and that isn't detected", at)
		}
		text[at] ^= 1
	}
}
