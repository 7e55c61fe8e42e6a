package gate

import "github.com/toolguard/toolguard/internal/policy/fspath"

// files is a file system as one call sees it: each file is looked at once, so that all questions about a call get answers about the same
// state, and cost less.
type files struct {
	fspath.FileSystem
	kinds map[string]kindOf
	links map[string]textOf
}

type kindOf struct {
	kind fspath.Kind
	err  error
}

type textOf struct {
	text string
	err  error
}

func newFiles(sys fspath.FileSystem) *files {
	return &files{sys, map[string]kindOf{}, map[string]textOf{}}
}

// Lstat implements fspath.FileSystem.
func (f *files) Lstat(path string) (fspath.Kind, error) {
	k, ok := f.kinds[path]
	if !ok {
		k.kind, k.err = f.FileSystem.Lstat(path)
		f.kinds[path] = k
	}
	return k.kind, k.err
}

// Readlink implements fspath.FileSystem.
func (f *files) Readlink(path string) (string, error) {
	l, ok := f.links[path]
	if !ok {
		l.text, l.err = f.FileSystem.Readlink(path)
		f.links[path] = l
	}
	return l.text, l.err
}
