package binding

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestFirstLine checks what the kernel executes for the first line of a script.
func TestFirstLine(t *testing.T) {
	tr := newTree(t)
	sh := tr.top + "/bin/sh"
	long := "#!" + sh + " " + strings.Repeat("x", maxHead)
	for _, x := range []struct{ line, want, why string }{
		{"#!" + sh, "w/s: bin/sh", ""}, // the whole file
		{"#! \t" + sh + " \t-e\t\nexit", "w/s: bin/sh", ""},
		{"#!" + sh + "\t-e\n", "w/s: bin/sh", ""},
		{"#!" + sh + "\n" + strings.Repeat("x", 4*maxHead), "w/s: bin/sh", ""},
		{long[:maxHead-1], "w/s: bin/sh", "can't be read"},
		{long[:maxHead-1] + "\n", "w/s: bin/sh", "can't be read"},
		{long[:maxHead], "w/s:", "names an interpreter"},
		{"#!\n" + sh, "w/s:", "names an interpreter"},
		{"#!", "w/s:", "names an interpreter"},
		{"#!../bin/sh\n", "w/s: bin/sh", ""},
		{"#!/none\n", "w/s:", "isn't found"},
		{"#!./s\n", "w/s:", "too many"},
		{"", "w/s:", "no format"},
		{"\x7fELF", "w/s:", ""},
		{"\x7fEL", "w/s:", "no format"},
	} {
		tr.write("w/s", x.line, 0o755)
		b, err := tr.of("w", tr.env(), "./s")
		if got := tr.names(b.Exe, b.Files); err != nil || got != x.want || !strings.Contains(b.Why, x.why) || b.Unique != (x.why == "") {
			t.Errorf("%.60q: %s (%s), %v", x.line, got, b.Why, err)
		}
	}
}

// TestNesting checks commands within commands up to the limit, and beyond.
func TestNesting(t *testing.T) {
	tr := newTree(t)
	for depth, unique := range map[int]bool{1: true, maxDepth - 2: true, maxDepth + 1: false, 2 * maxDepth: false, maxCalls + 1: false} {
		argv := append(slices.Repeat([]string{"env"}, depth), "tool")
		b, err := tr.of("w", tr.env(), argv...)
		if err != nil || b.Unique != unique || unique && tr.names(b.Exe, b.Files) != "bin/env: bin/tool" || !unique && b.Why != tooMany {
			t.Errorf("%d: %s (%s), %v", depth, tr.names(b.Exe, b.Files), b.Why, err)
		}
	}
	for n, unique := range map[int]bool{maxWords: true, maxWords + 1: false} {
		b, err := tr.of("w", tr.env(), append([]string{"tool"}, slices.Repeat([]string{"x"}, n-1)...)...)
		if err != nil || b.Unique != unique {
			t.Errorf("%d words: %s, %v", n, b.Why, err)
		}
	}
	b, err := tr.of("w", tr.env(), "$ bash$ sh -c 'sh -c \"sh -c ./x\"'")
	if got := tr.names(b.Exe, b.Files); err != nil || got != "bin/bash: bin/sh w/x" || !slices.Equal(b.Argv, []string{"bash", "-c", "sh -c 'sh -c \"sh -c ./x\"'"}) {
		t.Errorf("%s %q (%s), %v", got, b.Argv, b.Why, err)
	}
	b, err = tr.of("w", tr.env(), "$ none1; none2; none2; none3; none4")
	if err != nil || strings.Count(b.Why, ";") != maxWhy-1 || strings.Contains(b.Why, "none4") || !strings.Contains(b.Why, "none3") {
		t.Errorf("%s, %v", b.Why, err)
	}
	for _, word := range []string{strings.Repeat("x", 100), strings.Repeat("x", 101)} {
		if got := quote(word); strings.Contains(got, "…") != (len(word) > 100) {
			t.Error(got)
		}
	}
}

// TestWords checks words that depend on the environment, and odd arguments of unknown programs.
func TestWords(t *testing.T) {
	tr := newTree(t)
	noHome := []string{"PATH=" + tr.top + "/bin"}
	tr.write("home/.zprofile", "x", 0o644)
	for _, x := range []struct {
		env  []string
		argv []string
		want string
		why  string
	}{
		{noHome, []string{"$ python3 ~/h.py"}, "-: bin/python3", "home that isn't known"},
		{noHome, []string{"$ cd ~ && ./x"}, "-:", "home that isn't known"},
		{noHome, []string{"zsh", "-c", "tool"}, "bin/zsh: bin/tool", "home that isn't known"},
		{tr.env(), []string{"$ cd ~ && python3 h.py"}, "-: bin/python3 home/h.py", ""},
		{tr.env(), []string{"$ PATH=$X tool"}, "-: bin/tool", "PATH is assigned"},
		{tr.env(), []string{"$ A=$X tool"}, "-: bin/tool", ""},
		{tr.env(), []string{"$ GOOS=linux tool"}, "-: bin/tool", ""},
		{tr.env(), []string{"tool", "", "y.py/z", strings.Repeat("x", 5000), "-", "--", "--a="}, "bin/tool:", ""},
		{tr.env(), []string{"tool", "fifo"}, "bin/tool:", "isn't a regular file"},
		{tr.env(), []string{"zsh", "-c", "tool"}, "bin/zsh: bin/tool", ""},
		{tr.env(), []string{"zsh", "-lc", "tool"}, "bin/zsh: bin/tool home/.zprofile", ""},
		{tr.env(), []string{"env", "-C", "sub", "python3", "z.py"}, "bin/env: bin/python3 w/sub/z.py", ""},
		{[]string{"PATH=../bin"}, []string{"tool"}, "bin/tool:", ""},
		{[]string{"PATH=:/none"}, []string{"x"}, "w/x: bin/sh", ""},
	} {
		b, err := tr.of("w", x.env, x.argv...)
		if got := tr.names(b.Exe, b.Files); err != nil || got != x.want || !strings.Contains(b.Why, x.why) || b.Unique != (x.why == "") {
			t.Errorf("%.60q: %s (%s), %v", x.argv, got, b.Why, err)
		}
	}
	if _, err := tr.of("w", tr.env(), "\x00"); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a NUL byte: %v", err)
	}
}

// TestDigest checks files at the limits, and what isn't read.
func TestDigest(t *testing.T) {
	dir := childtest.TempDir(t)
	file := filepath.Join(dir, "f")
	for _, size := range []int64{0, 1, maxHead, maxHead + 1, 100_000} {
		childtest.Must(t, os.WriteFile(file, make([]byte, size), 0o600))
		c, err := digest(file, size)
		if err != nil || c.size != size || int64(len(c.head)) != min(size, maxHead) {
			t.Errorf("%d bytes: %+v, %v", size, c, err)
		}
		if _, err := digest(file, size-1); !errors.Is(err, errTooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, err := read(strings.NewReader(strings.Repeat("x", int(size))), size-1); size > 0 && !errors.Is(err, errTooLarge) {
			t.Errorf("%d bytes of a file that grows: %v", size, err)
		}
	}
	childtest.Must(t, errors.Join(os.Symlink("f", filepath.Join(dir, "link")), os.Symlink(".", filepath.Join(dir, "self"))))
	for _, x := range []struct {
		path string
		want error
	}{
		{dir, errNotRegular},
		{dir + "/link", errNotRegular},
		{dir + "/self/f", errUnstable},
		{"/dev/null", errNotRegular},
		{"/proc/version", errNotRegular},
		{dir + "/none", os.ErrNotExist},
	} {
		if _, err := digest(x.path, maxBytes); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", x.path, err)
		}
	}
	info := func() os.FileInfo {
		info, err := os.Stat(file)
		childtest.Must(t, err)
		return info
	}
	before := info()
	for _, change := range []func() error{
		func() error { return os.Chmod(file, 0o700) },
		func() error { return os.Chtimes(file, time.Now(), time.Unix(1, 0)) },
		func() error { return errors.Join(os.Truncate(file, 7), os.Chtimes(file, time.Now(), time.Unix(1, 0))) },
	} {
		childtest.Must(t, change())
		now := info()
		if sameState(before, now) || !sameState(now, info()) {
			t.Errorf("%v and %v", before, now)
		}
		before = now
	}
}
