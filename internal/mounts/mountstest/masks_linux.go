package mountstest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

const (
	r   = policy.Read
	w   = policy.Write
	x   = policy.Execute
	rwx = r | w | x
)

func Rule(path string, caps policy.Caps) policy.FSRule { return policy.FSRule{Path: path, Caps: caps} }

func Layer(rules ...policy.FSRule) policy.SourceLayer {
	system := func(path string) policy.FSRule { return policy.FSRule{Path: path, Caps: r | x, Secret: true} }
	return policy.SourceLayer{FS: append([]policy.FSRule{system("/usr"), system("/lib"), system("/lib64")}, rules...)}
}

// Tree makes files (with a text) and folders (which end in a slash) of a user in a new folder. Every user may change them.
func Tree(t testing.TB, parent string, uid int, names ...string) string {
	t.Helper()
	ws, err := os.MkdirTemp(parent, "mounts test-")
	childtest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(ws) })
	grow(t, uid, ws, names)
	return ws
}

func (p *Program) tree(t testing.TB, uid int, names ...string) string {
	return Tree(t, p.Parent, uid, names...)
}

func grow(t testing.TB, uid int, ws string, names []string) {
	t.Helper()
	for _, name := range names {
		p := filepath.Join(ws, name)
		childtest.Must(t, os.MkdirAll(filepath.Dir(p), 0o777))
		if strings.HasSuffix(name, "/") {
			childtest.Must(t, os.MkdirAll(p, 0o777))
		} else {
			childtest.Must(t, os.WriteFile(p, []byte("#!/bin/true\n"), 0o777))
		}
	}
	childtest.Must(t, filepath.WalkDir(ws, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		if os.Getuid() == 0 {
			if err := os.Lchown(p, uid, uid); err != nil {
				return err
			}
		}
		return os.Chmod(p, 0o777)
	}))
}

// masks performs operations under policies whose rules take away beneath grants. Each policy has an operation that must succeed.
func (p *Program) masks(t *testing.T) {
	type ops map[string]syscall.Errno
	all := []string{"dir/file", "dir/sub/file", "dir/deep/", "file", "prog", "a b/new\nline/\xff/file", "other/"}
	for _, c := range []struct {
		what   string
		rules  []policy.FSRule
		rows   map[string]policy.Status
		result ops
	}{
		{"a read-only folder", []policy.FSRule{Rule(".", r|w), Rule("dir", r)}, map[string]policy.Status{"fs.5": policy.Enforced}, ops{
			"read|dir/file": 0, "write|file": 0, "create|other/new": 0,
			"write|dir/file": unix.EROFS, "create|dir/new": unix.EROFS, "unlink|dir/file": unix.EROFS, "chmod|dir/file": unix.EROFS,
			"rename|dir|moved": unix.EBUSY, "rename|dir/file|dir/x": unix.EROFS, "mkdir|dir/new": unix.EROFS, "link|dir/file|linked": unix.EXDEV,
			"rename|file|dir/file": unix.EXDEV,
		}},
		{"a hidden folder", []policy.FSRule{Rule(".", r|w), Rule("dir", 0)}, map[string]policy.Status{"fs.5": policy.Enforced}, ops{
			"read|file": 0, "create|other/new": 0,
			"read|dir": unix.EACCES, "read|dir/file": unix.EACCES, "create|dir/new": unix.EACCES, "rename|dir|moved": unix.EBUSY, "rmdir|dir": unix.EBUSY,
			"chmod|dir": unix.EROFS,
		}},
		{"a hidden file", []policy.FSRule{Rule(".", r|w), Rule("dir/file", 0)}, map[string]policy.Status{"fs.5": policy.Enforced}, ops{
			"read|file": 0, "create|dir/new": 0,
			"read|dir/file": unix.EACCES, "write|dir/file": unix.EACCES, "unlink|dir/file": unix.EBUSY, "rename|dir/file|moved": unix.EXDEV,
			"rename|dir/file|dir/moved": unix.EBUSY, "rename|file|dir/file": unix.EXDEV, "link|dir/file|linked": unix.EXDEV, "chmod|dir/file": unix.EROFS,
			"rename|dir|moved": unix.EBUSY,
		}},
		{"a read-only file", []policy.FSRule{Rule(".", r|w), Rule("dir/sub/file", r)}, map[string]policy.Status{"fs.5": policy.Enforced}, ops{
			"read|dir/sub/file": 0, "create|dir/sub/new": 0,
			"write|dir/sub/file": unix.EROFS, "unlink|dir/sub/file": unix.EBUSY, "rename|dir/sub|moved": unix.EXDEV, "rename|dir/sub|dir/moved": unix.EBUSY,
			"rename|dir|moved": unix.EBUSY,
		}},
		{
			"a file that may be changed, and not replaced",
			[]policy.FSRule{Rule(".", r|w), Rule("file", r|policy.Update)},
			map[string]policy.Status{"fs.5": policy.Enforced},
			ops{
				"write|file": 0, "read|file": 0, "create|new": 0, "unlink|file": unix.EBUSY, "rename|new|file": unix.EBUSY, "rename|file|x": unix.EBUSY,
			},
		},
		{
			"masks in masks",
			[]policy.FSRule{Rule(".", r|w), Rule("dir", r), Rule("dir/sub", 0), Rule("dir/deep", r|w)},
			map[string]policy.Status{"fs.5": policy.Enforced, "fs.6": policy.Enforced, "fs.7": policy.Enforced},
			ops{
				"read|dir/file": 0, "create|dir/deep/new": 0,
				"write|dir/file": unix.EROFS, "read|dir/sub/file": unix.EACCES, "rename|dir/deep|dir/x": unix.EROFS,
			},
		},
		{
			"a grant beneath a hidden folder",
			[]policy.FSRule{Rule(".", r|w), Rule("dir", 0), Rule("dir/sub/file", r)},
			map[string]policy.Status{"fs.5": policy.Enforced, "fs.6": policy.Enforced},
			ops{
				"read|dir/sub/file": 0, "create|other/new": 0,
				"write|dir/sub/file": unix.EROFS, "read|dir": unix.EACCES, "read|dir/sub": unix.EACCES, "read|dir/file": unix.ENOENT, "create|dir/new": unix.EROFS,
				"create|dir/sub/new": unix.EROFS,
			},
		},
		{
			"a grant to write beneath a hidden folder",
			[]policy.FSRule{Rule(".", r|w), Rule("dir", 0), Rule("dir/deep", r|w)},
			map[string]policy.Status{"fs.5": policy.Enforced, "fs.6": policy.Enforced},
			ops{
				"create|dir/deep/new": 0, "read|dir/deep/new": 0, "create|dir/new": unix.EROFS, "rename|dir/deep|dir/x": unix.EROFS,
			},
		},
		{
			"names with blanks, newlines and other bytes",
			[]policy.FSRule{Rule(".", r|w), Rule("a b/new\nline/\xff", 0)},
			map[string]policy.Status{"fs.5": policy.Enforced},
			ops{
				"read|file": 0, "create|a b/new\nline/x": 0, "read|a b/new\nline/\xff/file": unix.EACCES, "rename|a b|x": unix.EBUSY,
			},
		},
		{
			"a larger grant in a writable folder stays where it is",
			[]policy.FSRule{Rule(".", r|w), Rule("dir", rwx), Rule("prog", r|x)},
			map[string]policy.Status{"fs.5": policy.Enforced, "fs.6": policy.Enforced},
			ops{
				"execute|dir/file": 0, "create|dir/new": 0, "execute|prog": 0, "execute|file": unix.EACCES,
				"rename|dir|moved": unix.EBUSY, "rename|file|prog": unix.EBUSY, "rename|file|dir/file": unix.EXDEV, "link|file|dir/x": unix.EXDEV,
			},
		},
	} {
		if p.Options.NoHoles && slices.Contains(notByAll, c.what) {
			continue
		}
		for _, uid := range p.Users {
			t.Run(c.what, func(t *testing.T) {
				s := p.New(t, p.tree(t, uid, all...), Layer(c.rules...))
				for id, want := range c.rows {
					if row := s.Row(t, id); row.Status != want {
						t.Errorf("%s is %v: %s", id, row.Status, row.Why)
					}
				}
				got := s.Run(t, uid, createFirst(slices.Collect(maps.Keys(c.result)))...)
				for op, want := range c.result {
					if got[op] != want && (p.Exact || want == 0 || got[op] == 0) {
						t.Errorf("as %d: %q: %v, want %v", uid, op, got[op], want)
					}
				}
			})
		}
	}
}

// notByAll are the policies that a program with limits rejects.
var notByAll = []string{
	"a grant beneath a hidden folder", "a grant to write beneath a hidden folder", "names with blanks, newlines and other bytes",
}

// createFirst moves what creates to the front, since other operations may use it.
func createFirst(ops []string) []string {
	slices.SortFunc(ops, func(a, b string) int { return strings.Compare(order(a), order(b)) })
	return ops
}

func order(op string) string {
	for i, first := range []string{"create|", "read|", "execute|", "write|"} {
		if strings.HasPrefix(op, first) {
			return string(rune('0'+i)) + op
		}
	}
	return "9" + op
}
