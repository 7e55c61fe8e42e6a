package fspath

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// maxLinks is how many symlinks a path may lead through: MAXSYMLINKS of the kernel (include/linux/namei.h).
const maxLinks = 40

var (
	errLoop    = errors.New("too many symlinks in a row")
	errMagic   = errors.New("leads through a link of /proc that only the process itself can follow")
	errDotDot  = errors.New(`".." after something that doesn't exist`)
	ErrNUL     = errors.New("a NUL byte in a path")
	ErrEscape  = errors.New("workspace_escape") // the name of package policy's reason
	ErrEmpty   = errors.New("an empty path")
	ErrTooLong = fmt.Errorf("longer than %d bytes or deeper than %d components", MaxPath, MaxDepth)
)

// Resolver follows paths through a file tree as the kernel would: component by component, symlinks and ".." in order.
// It remembers directories and symlinks, so that one compilation looks at each of them once.
type Resolver struct {
	files FileSystem
	seen  map[string]entry
	// Literal keeps everything beneath /proc/self as it is: a rule means the session's own processes, which don't exist yet.
	Literal bool
	// OnLink is called with every symlink that is followed; nil for none.
	OnLink func(path string)
}

type entry struct {
	kind Kind
	link string
	err  error
}

// Resolved is the target of a path.
type Resolved struct {
	Path     string
	Kind     Kind
	Missing  bool // it doesn't exist: the last components were appended unresolved
	dangling bool // a symlink leads to the missing path
}

// NewResolver returns a resolver with an empty cache.
func NewResolver(files FileSystem) *Resolver {
	return &Resolver{files: files, seen: make(map[string]entry, 64)}
}

func (r *Resolver) lstat(path string) entry {
	if e, ok := r.seen[path]; ok {
		return e
	}
	var e entry
	e.kind, e.err = r.files.Lstat(path)
	if e.err == nil && e.kind == Symlink {
		e.link, e.err = r.files.Readlink(path)
	}
	if e.err == nil && (e.kind == Dir || e.kind == Symlink) {
		r.seen[path] = e // other files are rarely looked up twice
	}
	return e
}

// walk is the state of one resolution.
type walk struct {
	*Resolver
	path  string // begins with cur, or is empty: the path that is followed, as far as it has the same names
	cur   string // resolved so far, without a slash at the end; "" is the root
	rest  string // unresolved
	own   int    // the length of the part of rest that is from the path itself, not from a symlink
	links int
	kind  Kind
}

// Resolve follows an absolute path. When follow is false a symlink in the last component is not followed.
func (r *Resolver) Resolve(path string, follow bool) (Resolved, error) {
	w := walk{Resolver: r, path: path, rest: path, own: len(path), kind: Dir}
	for {
		w.rest = strings.TrimLeft(w.rest, "/")
		if w.rest == "" {
			return Resolved{Path: rooted(w.cur), Kind: w.kind}, nil
		}
		inLink := len(w.rest) > w.own
		name, rest, more := strings.Cut(w.rest, "/")
		w.rest = rest
		missing, err := w.step(name, follow || more)
		if err != nil {
			return Resolved{}, err
		}
		if missing {
			return w.appendMissing(name, inLink)
		}
	}
}

func (w *walk) step(name string, follow bool) (missing bool, err error) {
	switch name {
	case ".":
		return false, nil
	case "..":
		w.cur, w.kind = w.cur[:max(0, strings.LastIndexByte(w.cur, '/'))], Dir
		return false, nil
	}
	if done, err := w.stepProc(name, follow); done || err != nil {
		return false, err
	}
	next := w.child(name)
	e := w.lstat(next)
	switch {
	case errors.Is(e.err, fs.ErrNotExist) || errors.Is(e.err, syscall.ENOTDIR):
		return true, nil
	case e.err != nil:
		return false, e.err
	case e.kind == Symlink && follow:
		if w.OnLink != nil {
			w.OnLink(next)
		}
		return false, w.expand(e.link)
	}
	w.cur, w.kind = next, e.kind
	return false, nil
}

// child returns the path of name beneath cur: a part of path where it can be, which saves most allocations.
func (w *walk) child(name string) string {
	if n := len(w.cur) + 1; n+len(name) <= len(w.path) && w.path[n-1] == '/' && w.path[n:n+len(name)] == name {
		return w.path[:n+len(name)]
	}
	w.path = ""
	return w.cur + "/" + name
}

func (w *walk) expand(link string) error {
	if w.links++; w.links > maxLinks {
		return errLoop
	}
	w.own = min(w.own, len(w.rest))
	if strings.HasPrefix(link, "/") {
		w.cur = ""
	}
	if w.rest != "" {
		link += "/"
	}
	w.rest = link + w.rest
	return nil
}

func (w *walk) appendMissing(name string, dangling bool) (Resolved, error) {
	p := w.child(name)
	for c := range strings.SplitSeq(w.rest, "/") {
		switch c {
		case "", ".":
		case "..":
			return Resolved{}, errDotDot
		default:
			p += "/" + c
		}
	}
	return Resolved{Path: p, Kind: File, Missing: true, dangling: dangling}, nil
}
