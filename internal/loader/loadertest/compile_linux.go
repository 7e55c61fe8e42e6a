// Package loadertest has what the tests of package loader and of the packages beneath it share: policies compiled from a few rules, and
// files for them.
package loadertest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// Compile compiles fs rules, "PATH CAPS" or "**/LAST CAPS" each, for this machine's files.
func Compile(t testing.TB, rules ...string) *policy.Compiled {
	t.Helper()
	c, err := TryCompile(rules...)
	childtest.Must(t, err)
	return c
}

// TryCompile is Compile with its error.
func TryCompile(rules ...string) (*policy.Compiled, error) { return TryCompileOn(Tree{}, rules...) }

// TryCompileOn compiles them for a file tree.
func TryCompileOn(on Tree, rules ...string) (*policy.Compiled, error) {
	layer := policy.SourceLayer{Authority: policy.Session}
	layer.Defaults[policy.FS], layer.Defaults[policy.Net] = policy.Deny, policy.Deny
	for _, r := range rules {
		place, words, _ := strings.Cut(r, " ")
		rule := policy.FSRule{Path: place}
		if strings.Contains(place, "**/") {
			rule = policy.FSRule{Match: place}
		}
		for word := range strings.SplitSeq(words, "+") {
			if c, ok := policy.ParseCap(word); ok {
				rule.Caps |= c
			}
		}
		layer.FS = append(layer.FS, rule)
	}
	return policy.Compile(&policy.Source{
		Name: "test", Workspace: "/", Home: "/", Path: "/usr/bin:/bin", Layers: []policy.SourceLayer{layer},
	}, on)
}

// Scene makes files with their names as contents, and returns their folder.
func Scene(t testing.TB, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	childtest.Must(t, err)
	for _, name := range names {
		p := filepath.Join(dir, name)
		childtest.Must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		childtest.Must(t, os.WriteFile(p, []byte(name), 0o644))
	}
	return dir
}

// Tree is the file tree of this machine, and mounts that it needn't have.
type Tree struct{ Extra []policy.Mount }

func (Tree) Lstat(path string) (policy.Kind, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return policy.File, err
	case info.IsDir():
		return policy.Dir, nil
	case info.Mode()&fs.ModeSymlink != 0:
		return policy.Symlink, nil
	case info.Mode().IsRegular() && info.Mode()&0o111 != 0:
		return policy.Program, nil
	}
	return policy.File, nil
}

func (Tree) Readlink(path string) (string, error) { return os.Readlink(path) }

func (t Tree) Mounts() ([]policy.Mount, error) { return t.Extra, nil }

func (Tree) File(path string) (policy.FileID, uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return policy.FileID{}, 0, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		st.Nlink = 1
	}
	return policy.FileID{Dev: st.Dev, Inode: st.Ino}, uint64(st.Nlink), nil
}
