package patch

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// tree is the text of each file by path.
type tree map[string]string

func (t tree) write(tb testing.TB, dir string) {
	for name, text := range t {
		childtest.Must(tb, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		childtest.Must(tb, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

func readTree(tb testing.TB, dir string) tree {
	t := tree{}
	childtest.Must(tb, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		t[rel] = string(text)
		return err
	}))
	return t
}

func run(dir, stdin, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

var treeNames = []string{"x", "d/y", "a/x", "my file", "d/e/t\tb", "q\"uote", "umlaut-\u00e4", "b/z", "-dash", "d/old", "d/new name"}

func randomTree(r *rand.Rand) tree {
	t := tree{}
	for _, name := range treeNames {
		if r.IntN(3) > 0 {
			t[name] = randomText(r)
		}
	}
	return t
}

func randomText(r *rand.Rand) string {
	choices := []string{"one", "two", "-- comment", "++ more", "", "three", "--- a/x", "+++ b/d/y", "diff --git a/x b/x", "@@ -1 +1 @@", "*** Delete File: x"}
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(choices[r.IntN(len(choices))] + "\n")
	}
	return b.String()
}

// change returns a tree with some files changed, removed, renamed and added.
func (t tree) change(r *rand.Rand) tree {
	after := tree{}
	for _, name := range slices.Sorted(keys(t)) {
		switch text := t[name]; r.IntN(6) {
		case 0: // deleted
		case 1:
			after[name+".moved"] = text
		case 2, 3:
			l := strings.SplitAfter(text, "\n")
			l[r.IntN(len(l))] = randomText(r)
			after[name] = strings.Join(l, "")
		default:
			after[name] = text
		}
	}
	after["added"] = randomText(r)
	return after
}

func keys(t tree) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range t {
			if !yield(name) {
				return
			}
		}
	}
}

// makePatch writes the difference between two trees with git, in one of its styles, or with the names of diff -u.
func makePatch(t *testing.T, r *rand.Rand, before, after tree) string {
	dir := t.TempDir()
	before.write(t, dir)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
		_, err := run(dir, "", "git", args...)
		childtest.Must(t, err)
	}
	for name := range before {
		childtest.Must(t, os.Remove(filepath.Join(dir, name)))
	}
	after.write(t, dir)
	_, err := run(dir, "", "git", "add", "-AN")
	childtest.Must(t, err)
	styles := [][]string{{}, {"-M"}, {"-M", "-C", "--find-copies-harder"}, {"--no-prefix"}, {"--src-prefix=i/", "--dst-prefix=w/"}, {"-U0"}, {"-D"}, {"--binary", "--full-index"}}
	text, err := run(dir, "", "git", append([]string{"diff"}, styles[r.IntN(len(styles))]...)...)
	childtest.Must(t, err)
	if r.IntN(3) == 0 { // a plain diff, with a time for the files that don't exist
		var plain []string
		for _, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, "diff --git") && !strings.HasPrefix(line, "index ") && !strings.Contains(line, "file mode") {
				plain = append(plain, line)
			}
		}
		text = strings.Join(plain, "\n")
	}
	return text
}

// mutate changes some lines of a patch.
func mutate(r *rand.Rand, text string) string {
	l := strings.Split(text, "\n")
	evil := []string{
		"--- a/x", "+++ b/x", "--- d/y", "+++ d/y", "--- /dev/null", "+++ /dev/null", "@@ -1 +1 @@", "@@ -0,0 +1,2 @@", "@@ -1,3 +0,0 @@", "diff --git a/d/y b/d/y", "rename from x", "rename to d/y",
		"new file mode 100644", "deleted file mode 100644", "Index: x", "-one", "+two", " three", "", "--- x 2026-01-01 00:00:00", "+++ my file", "\\ No newline at end of file", "--- d/y\t1970-01-01 00:00:00 +0000", "garbage",
	}
	for range 1 + r.IntN(5) {
		i := r.IntN(len(l))
		switch r.IntN(5) {
		case 0:
			l[i] = evil[r.IntN(len(evil))]
		case 1:
			l = slices.Insert(l, i, evil[r.IntN(len(evil))])
		case 2:
			l = slices.Delete(l, i, i+1)
		case 3:
			l[i] = strings.NewReplacer("1", "2", "3", "1", "2", "5").Replace(l[i])
		case 4:
			j := r.IntN(len(l))
			l[i], l[j] = l[j], l[i]
		}
		if len(l) == 0 {
			return ""
		}
	}
	return strings.Join(l, "\n")
}

// missing returns the first change of a file that the files of a patch don't have.
// With -p0 a program keeps the prefixes of git, which Files removes.
func missing(files []File, before, after tree, p0 bool) string {
	has := func(p string, actions ...Action) bool {
		return slices.ContainsFunc(files, func(f File) bool {
			named := f.Path
			if f.Action == Move && slices.Contains(actions, Create) {
				named = f.To
			} else if !slices.Contains(actions, f.Action) {
				return false
			}
			return path.Clean(named) == p || p0 && (path.Join("a", named) == p || path.Join("b", named) == p)
		})
	}
	for p, text := range after {
		old, existed := before[p]
		switch {
		case !existed && !has(p, Create):
			return p + " is created"
		case existed && old != text && !has(p, Create, Modify):
			return p + " is modified"
		}
	}
	for p := range before {
		if _, exists := after[p]; !exists && !has(p, Delete, Move) {
			return p + " is deleted"
		}
	}
	return ""
}

// seeds is how many patches the test makes.
var seeds = 12

// Whatever git and GNU patch do with a patch, Files has it: for patches as git makes them, and for changed ones.
func TestPrograms(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("needs patch")
	}
	programs := [][]string{
		{"git", "apply"},
		{"git", "apply", "-p0"},
		{"git", "apply", "--recount", "--unidiff-zero", "--inaccurate-eof"},
		{"patch", "-p1", "-f", "-s", "--no-backup-if-mismatch", "-r-"},
		{"patch", "-p0", "-f", "-s", "--no-backup-if-mismatch", "-r-"},
	}
	applied, accepted := map[string]int{}, 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		before := randomTree(r)
		text := makePatch(t, r, before, before.change(r))
		for variant := range 4 {
			if variant > 0 {
				text = mutate(r, text)
			}
			files, err := Files(text)
			if err != nil && variant == 0 {
				t.Errorf("seed %d: %v\n%s", seed, err, text)
			}
			if err != nil {
				continue
			}
			accepted++
			for _, p := range programs {
				dir := t.TempDir()
				before.write(t, dir)
				run(dir, text, p[0], p[1:]...) //nolint:errcheck // a patch that fails may have changed files, too
				after := readTree(t, dir)
				if m := missing(files, before, after, slices.Contains(p, "-p0")); m != "" {
					t.Errorf("seed %d, variant %d: %s by %s, and the patch is\n%s\nand its files %v", seed, variant, m, p, text, files)
				}
				if fmt.Sprint(before) != fmt.Sprint(after) {
					applied[strings.Join(p, " ")]++
				}
			}
		}
	}
	t.Log(applied, accepted)
	for _, p := range programs {
		if n := applied[strings.Join(p, " ")]; n < 1 {
			t.Errorf("%s has applied %d patches: the test shows nothing", p, n)
		}
	}
}
