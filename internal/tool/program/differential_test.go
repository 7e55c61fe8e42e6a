package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// The differential test runs the real programs with a marker: a script that leaves a file. Where the marker ran, Inspect must have found it,
// or something unclear. Each option that a table has, and each letter that it may not have, stands before the one that runs the marker: a
// table that wrongly has a value for an option would hide the marker. MARK is the marker, OPT the option and what follows it.
var differential = []struct {
	argv    string
	least   int  // so many options must let the marker run
	letters bool // try each letter, not only those of the table
}{
	{"env OPT MARK", 12, true},
	{"env OPT -S MARK", 8, false},
	{"nice OPT MARK", 5, true},
	{"ionice OPT MARK", 4, true},
	{"setsid OPT MARK", 2, true},
	{"stdbuf OPT MARK", 3, true},
	{"stdbuf -o0 OPT MARK", 6, false},
	{"timeout OPT 5 MARK", 8, true},
	{"chrt OPT -o 0 MARK", 5, true},
	{"taskset OPT 1 MARK", 3, true},
	{"flock OPT lock MARK", 8, true},
	{"flock OPT lock -c MARK", 8, false},
	{"xargs OPT MARK", 15, true},
	{"find . OPT -exec MARK ;", 20, false},
	{"find OPT . -exec MARK ;", 4, false},
	{"tar -cf out.tar --checkpoint=1 OPT --checkpoint-action=exec=MARK file", 60, true},
	{"tar -cf out.tar OPT -IMARK file", 40, false},
	{"tar cfOPT out.tar -IMARK file", 5, true},
	{"sort -S 16K -o out OPT --compress-program=MARK big", 20, true},
	{"sed OPT -e 1eMARK file", 8, true},
	{"split OPT --filter=MARK file", 5, true},
	{"git OPT -c alias.zz=!MARK zz", 8, true},
	{"git grep OPT -OMARK text", 20, true},
	{"git rebase OPT --exec=MARK HEAD~1", 5, true},
	{"bash OPT -c MARK", 15, true},
	{"bash +OPT -c MARK", 5, true},
	{"sh OPT -c MARK", 8, true},
	{"perl OPT -e system('MARK')", 10, true},
	{"make OPT --eval=$(shell\u00a0MARK)", 10, true},
	{"script OPT -c MARK out", 5, true},
	{"setpriv OPT MARK", 3, true},
	{"strace OPT MARK", 10, true},
}

const everyLetter = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func TestDifferential(t *testing.T) {
	for _, d := range differential {
		name, _, _ := strings.Cut(d.argv, " ")
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		t.Run(strings.ReplaceAll(d.argv, "/", "_"), func(t *testing.T) {
			t.Parallel()
			dir := scene(t)
			ran := 0
			for i, o := range optionForms(entryOf(d.argv), d.letters) {
				mark := filepath.Join(dir, fmt.Sprint("mark", i)) // its own, as it may run late
				argv := fill(d.argv, o, mark)
				if !runMarker(t, dir, argv, mark) {
					continue
				}
				ran++
				if !findsMarker(argv, mark) {
					t.Errorf("%q runs the marker, which isn't found", argv)
				}
			}
			if ran < d.least {
				t.Errorf("the marker ran with %d forms of options; at least %d should let it", ran, d.least)
			}
		})
	}
}

// entryOf returns the entry whose options a command line uses.
func entryOf(argv string) *entry {
	words := strings.Fields(argv)
	for _, name := range []string{words[0] + "/" + words[1], words[0] + "/options", words[0]} {
		if e := named(name); e != nil {
			return e
		}
	}
	return lookUp(words[0])
}

// optionForms returns words to try: each option alone, with a value, and with a value in the same word; letters also bundled with others.
func optionForms(e *entry, letters bool) (forms [][]string) {
	var names []string
	for name := range e.options {
		names = append(names, name)
	}
	if e.name == "find" {
		for name := range findValues() {
			names = append(names, name)
		}
	}
	if letters {
		for _, c := range everyLetter {
			names = append(names, "-"+string(c))
		}
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if n == "-" || n == "-#" || n == "-*" || n[0] == '+' || n[0] == '%' {
			continue
		}
		forms = append(forms, []string{n}, []string{n, "0"})
		if strings.HasPrefix(n, "--") {
			forms = append(forms, []string{n + "=0"})
		} else {
			forms = append(forms, []string{n + "0"}, []string{n + "v"})
		}
	}
	return forms
}

// fill replaces OPT and MARK in a row. An option without its dash completes a word.
func fill(row string, option []string, mark string) (argv []string) {
	for _, w := range strings.Fields(strings.ReplaceAll(row, "\u00a0", "\x00")) {
		w = strings.ReplaceAll(w, "\x00", " ")
		switch before, _, ok := strings.Cut(w, "OPT"); {
		case ok && before != "":
			argv = append(argv, before+strings.TrimLeft(option[0], "-"))
			argv = append(argv, option[1:]...)
		case ok:
			argv = append(argv, option...)
		default:
			argv = append(argv, w)
		}
	}
	for i, w := range argv {
		argv[i] = strings.ReplaceAll(w, "MARK", mark)
	}
	return argv
}

// scene makes a folder with files, a repository and the marker.
func scene(t *testing.T) string {
	dir, err := os.MkdirTemp("", "toolguard") // without the characters of the test's name
	childtest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	files := map[string]string{
		"mark": "#!/bin/sh\n: >\"$0.ran\"\n", "file": "text\n", "lock": "", "big": strings.Repeat("a line of text\n", 1<<13),
		"Makefile": "all:\n", "0": "text\n", "dir/x": "",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		childtest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		childtest.Must(t, os.WriteFile(path, []byte(text), 0o755))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "file"}, {"commit", "-qm", "1"}, {"commit", "-qm", "2", "--allow-empty"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, quietEnv(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func quietEnv(dir string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TMPDIR=" + dir, "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_NOSYSTEM=1", "SHELL=/bin/sh",
	}
}

// runMarker runs a command line, and reports whether the marker ran.
func runMarker(t *testing.T, dir string, argv []string, mark string) bool {
	childtest.Must(t, os.Link(filepath.Join(dir, "mark"), mark))
	childtest.Must(t, os.RemoveAll(filepath.Join(dir, ".git/rebase-merge")))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, quietEnv(dir), time.Second
	if argv[0] == "xargs" {
		cmd.Stdin = strings.NewReader("a\n")
	}
	_ = cmd.Run() // most fail: the marker's file is what counts
	_, err := os.Stat(mark + ".ran")
	return err == nil
}

// findsMarker reports whether a call leads to the marker, or to something unclear, as the gate finds it: by Inspect on each call in turn.
func findsMarker(argv []string, mark string) bool {
	first := Call{}
	for _, a := range argv {
		first.Argv = append(first.Argv, Literal(a))
	}
	calls := []Call{first}
	for range 8 {
		var next []Call
		for _, c := range calls {
			e := Inspect(&c)
			if len(e.Unclear) > 0 || c.Argv[0].Text == mark {
				return true
			}
			for _, s := range e.Scripts {
				if strings.Contains(s.Text, mark) {
					return true
				}
			}
			next = append(next, e.Calls...)
		}
		calls = next
	}
	return false
}
