// Package written compiles policies for a Mac without looking at one: every path is taken as it is written. Only the symlinks and the firmlink that
// each Mac has are followed, and what only Linux has isn't there.
package written

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// Request names a policy and the Mac that it is for.
type Request struct {
	Policies  []string // files, or "preset:NAME"
	Workspace string   // "": the policies' own, or Dir
	Home      string   // absolute
	Dir       string   // absolute: relative names are relative to it
}

// searchPath is the PATH of a new user of macOS.
const searchPath = "/usr/bin:/bin:/usr/sbin:/sbin"

// Compile reads and compiles a policy. read reads its files; nil reads those of this machine.
func Compile(r Request, read func(path string, limit int) ([]byte, error)) (*policy.Compiled, error) {
	if read == nil {
		read = hostfs.Machine{}.Read
	}
	if r.Home != "" && !path.IsAbs(r.Home) {
		return nil, fmt.Errorf("the home %q isn't an absolute path", r.Home)
	}
	src, _, err := policyfile.Load(policyfile.Request{
		Policies: r.Policies, Workspace: r.Workspace, Home: r.Home, Dir: r.Dir, Path: searchPath, NoDetect: true, System: "darwin",
	}, files{read})
	if err != nil {
		return nil, err
	}
	src.Own = userfiles.Of(r.Home, func(string) string { return "" }).All()
	return policy.Compile(src, tree{[]string{src.Workspace, r.Home}})
}

// files is what loading a policy needs.
type files struct {
	read func(path string, limit int) ([]byte, error)
}

func (f files) Read(path string, limit int) ([]byte, error) { return f.read(path, limit) }

// Real returns a path as the kernel would resolve it.
func (files) Real(p string) (string, error) {
	got, err := fspath.NewResolver(tree{}).Resolve(path.Clean(p), true)
	return got.Path, err
}

// Exists reports nothing, so that nothing is detected.
func (files) Exists(string) bool { return false }

// ReadTrusted and List are for the policies of a machine.
func (files) ReadTrusted(string, int) ([]byte, error) { return nil, fs.ErrNotExist }

// List finds no policies.
func (files) List(string) ([]string, error) { return nil, fs.ErrNotExist }

// tree is a file tree in which every path exists.
type tree struct{ folders []string }

// links are the symlinks of every Mac; the data volume's folders also appear in the root folder, by firmlinks.
var links = map[string]string{"/tmp": "private/tmp", "/var": "private/var", "/etc": "private/etc", "/System/Volumes/Data": "/"}

// absent are folders that only Linux has.
var absent = []string{"/proc", "/sys", "/run", "/lib", "/lib32", "/lib64", "/libx32"}

// Lstat returns Program where it isn't known that a path is a folder.
func (t tree) Lstat(p string) (fspath.Kind, error) {
	first := p
	if i := strings.IndexByte(p[1:], '/'); i >= 0 {
		first = p[:i+1]
	}
	switch _, link := links[p]; {
	case link:
		return fspath.Symlink, nil
	case slices.Contains(absent, first):
		return fspath.File, fs.ErrNotExist
	case slices.ContainsFunc(t.folders, func(f string) bool { return isAbove(p, f) }):
		return fspath.Dir, nil
	}
	return fspath.Program, nil
}

// isAbove reports whether a path is a folder as it is written, or one above it.
func isAbove(p, folder string) bool {
	real, err := files{}.Real(folder)
	return fspath.Within(folder, p) || err == nil && fspath.Within(real, p)
}

// Readlink returns the text of a symlink.
func (tree) Readlink(p string) (string, error) {
	if to, ok := links[p]; ok {
		return to, nil
	}
	return "", errors.New("not a symlink")
}

// Mounts returns none.
func (tree) Mounts() ([]fspath.Mount, error) { return nil, nil }

// File returns the same file, with one hard link, at every path.
func (tree) File(string) (fspath.FileID, uint64, error) { return fspath.FileID{Inode: 1}, 1, nil }
