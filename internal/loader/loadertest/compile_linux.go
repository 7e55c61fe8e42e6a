// Package loadertest has what the tests of package loader and of the packages beneath it share: policies compiled from a few rules, and
// files for them.
package loadertest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
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
type Tree struct{ Extra []fspath.Mount }

func (Tree) Lstat(path string) (fspath.Kind, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fspath.File, err
	case info.IsDir():
		return fspath.Dir, nil
	case info.Mode()&fs.ModeSymlink != 0:
		return fspath.Symlink, nil
	case info.Mode().IsRegular() && info.Mode()&0o111 != 0:
		return fspath.Program, nil
	}
	return fspath.File, nil
}

func (Tree) Readlink(path string) (string, error) { return os.Readlink(path) }

func (t Tree) Mounts() ([]fspath.Mount, error) { return t.Extra, nil }

func (Tree) File(path string) (fspath.FileID, uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fspath.FileID{}, 0, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		st.Nlink = 1
	}
	return fspath.FileID{Dev: st.Dev, Inode: st.Ino}, uint64(st.Nlink), nil
}

// ManyHits returns a policy of as many layers as the programs follow (MAX_LAYERS of bpf/lib/image.h). Each has as many rules about a path as
// possible, and the last one denies it.
func ManyHits(t testing.TB, path string) *policy.Compiled {
	t.Helper()
	const layers = 10
	compiled := func(rules ...policy.FSRule) *policy.Compiled {
		layer := policy.SourceLayer{Authority: policy.Session, FS: append([]policy.FSRule{{Path: "/", Caps: policy.Read}}, rules...)}
		c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, Tree{})
		childtest.Must(t, err)
		return c
	}
	all := compiled(policy.FSRule{Path: path, Caps: policy.Read}, policy.FSRule{Path: path, Caps: policy.Update, Position: policy.Position{File: "preset:test"}})
	last := compiled(policy.FSRule{Path: path})
	wide := all.Layers[len(all.Layers)-1] // the first is toolguard's own
	all.Layers = nil
	for i := range layers - 1 {
		layer, own := *wide, policy.FSRule{Path: fmt.Sprintf("%s/%d", path, i)} // no table is another's
		layer.Protect, layer.Secrets = compiled(policy.FSRule{Path: path}, own).Layers[1].FS, compiled(policy.FSRule{Path: path, Caps: policy.Read}, own).Layers[1].FS
		all.Layers = append(all.Layers, &layer)
	}
	all.Layers = append(all.Layers, last.Layers[len(last.Layers)-1])
	for _, r := range last.Rules {
		r.Index += int32(len(all.Rules))
	}
	all.Rules = append(all.Rules, last.Rules...)
	return all
}
