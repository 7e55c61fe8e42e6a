package audit

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFilesReplaced checks that the removal and replacement of open files is reported, and that later records are readable.
func TestFilesReplaced(t *testing.T) {
	restore := func(t *testing.T, file string) { // replaces a file by its copy
		t.Helper()
		text := readFile(t, file)
		remove(t, file)
		writeFile(t, file, text)
	}
	for name, c := range map[string]struct {
		do      func(t *testing.T, s *Spool)
		fails   bool // until the folder exists again
		reports string
		finds   string
	}{
		"file removed":  {func(t *testing.T, s *Spool) { remove(t, s.path(fileName(1))) }, false, "up to 4, are gone", "the records before it are missing"},
		"file replaced": {func(t *testing.T, s *Spool) { restore(t, s.path(fileName(1))) }, false, "up to 4, are gone", ""},
		"head removed":  {func(t *testing.T, s *Spool) { remove(t, s.path(headName)) }, false, "replaced the file head", ""},
		"head replaced": {func(t *testing.T, s *Spool) { restore(t, s.path(headName)) }, false, "replaced the file head", ""},
		"folder removed": {func(t *testing.T, s *Spool) {
			must(t, os.RemoveAll(s.Folder))
		}, true, "up to 4, are gone", "the records before it are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/audit"
			s := open(t, dir, Limits{})
			appendAll(t, s, denials(0, 3))
			c.do(t, s)
			if c.fails {
				if n, err := s.Append(denials(9, 1)); n != 0 || err == nil || !strings.Contains(err.Error(), "folder was removed") {
					t.Errorf("%d %v", n, err)
				}
				must(t, os.Mkdir(dir, 0o700))
			}
			appendAll(t, s, denials(3, 2))
			if c.finds == "" {
				if got := targets(t, dir); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
					t.Error(got)
				}
			}
			closeSpool(t, s)
			if text := readFile(t, lastFile(t, dir)); !bytes.Contains(text, []byte(c.reports)) || !bytes.Contains(text, []byte("/secret/4")) || bytes.Count(text, []byte("another process removed")) > 2 {
				t.Errorf("%s", text)
			}
			r := verifySpool(t, dir)
			if c.finds == "" && len(r.Problems) > 0 || !strings.Contains(fmt.Sprint(r.Problems), c.finds) {
				t.Errorf("%+v", r)
			}
			writeSpool(t, dir, Limits{}, denials(5, 1))
			if again := verifySpool(t, dir); len(again.Problems) != len(r.Problems) || again.Gaps != r.Gaps {
				t.Errorf("%+v", again)
			}
		})
	}
}

// TestFilesReplacedBeforeClose checks the same if no event follows.
func TestFilesReplacedBeforeClose(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendAll(t, s, denials(0, 3))
	remove(t, s.path(headName))
	closeSpool(t, s)
	if r := sound(t, dir); r.Inexact != 1 {
		t.Errorf("%+v", r)
	}
}
