package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// linked is what a search for hard links has found of the files that one rule denies something on.
type linked struct {
	files    int
	example  string // the first of them
	limited  bool   // there are more entries than may be searched
	unlisted int    // folders and files that can't be searched
}

// linkSearch searches what mounts cover for files that have hard links which no mount covers: a session can use those.
type linkSearch struct {
	b     *builder
	roots map[string]bool // mounts and paths of rules, each of which is searched up to the next ones
	left  [2]int          // entries that may still be searched: in the workspace, and elsewhere
	names map[Inode]map[name]covered
	links map[Inode]uint32
	found map[*policy.Rule]*linked
}

// name is one hard link of a file. A folder that has aliases by bind mounts has its names once.
type name struct {
	dir  Inode
	base string
}

// covered is a name with a path that it has, and the mode there.
type covered struct {
	path string
	mode Mode
}

// searchLinks returns what it found by rule.
func (b *builder) searchLinks() map[*policy.Rule]*linked {
	s := &linkSearch{
		b: b, roots: map[string]bool{}, left: [2]int{MaxEntries, MaxEntries}, names: map[Inode]map[name]covered{}, links: map[Inode]uint32{},
		found: map[*policy.Rule]*linked{},
	}
	for p := range b.mounts {
		s.roots[p] = true
	}
	for p := range b.points {
		s.roots[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(s.roots)) {
		if !isKernel(p) && s.taken(p) != 0 {
			s.search(p)
		}
	}
	for inode, names := range s.names {
		for _, n := range names {
			s.check(n, names, s.links[inode])
		}
	}
	return s.found
}

// taken returns what mounts alone take away on a path.
func (s *linkSearch) taken(p string) policy.Caps { return s.b.permitted(p) &^ s.b.modeAt(p).caps() }

// search goes through what is at a path and beneath it, up to the next roots.
func (s *linkSearch) search(root string) {
	kind, err := s.b.files.Lstat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return
	case err != nil:
		s.mark(root, func(l *linked) { l.unlisted++ })
		return
	case kind != fspath.Dir:
		dir, _, _ := s.b.files.Inode(parent(root))
		s.add(root, kind, dir)
		return
	}
	left := &s.left[1]
	if fspath.Within(root, s.b.c.Workspace) {
		left = &s.left[0]
	}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		if *left <= 0 {
			s.mark(root, func(l *linked) { l.limited = true })
			return
		}
		inode, _, err := s.b.files.Inode(queue[0])
		entries, listErr := s.b.files.List(queue[0], *left)
		if err != nil || listErr != nil {
			s.mark(queue[0], func(l *linked) { l.unlisted++ })
		}
		if *left -= len(entries); *left <= 0 { // there may be more
			s.mark(root, func(l *linked) { l.limited = true })
		}
		for _, e := range entries {
			p := fspath.Join(queue[0], "/"+e.Name)
			switch {
			case s.roots[p] || isKernel(p):
			case e.Kind == fspath.Dir:
				queue = append(queue, p)
			default:
				s.add(p, e.Kind, inode)
			}
		}
	}
}

// add records a name of a file that has several.
func (s *linkSearch) add(p string, kind fspath.Kind, dir Inode) {
	if kind == fspath.Symlink {
		return
	}
	inode, links, err := s.b.files.Inode(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.mark(p, func(l *linked) { l.unlisted++ })
	case links > 1:
		if s.names[inode] == nil {
			s.names[inode] = map[name]covered{}
		}
		s.names[inode][name{dir, p[len(parent(p)):]}] = covered{p, s.b.modeAt(p)}
		s.links[inode] = links
	}
}

// check records a name of a file for the rules that deny something there, if its further hard links permit more.
func (s *linkSearch) check(n covered, names map[name]covered, links uint32) {
	strict := uint32(0)
	for _, o := range names {
		if o.mode <= n.mode {
			strict++
		}
	}
	if strict >= links {
		return
	}
	s.mark(n.path, func(l *linked) {
		if l.files++; l.example == "" || n.path < l.example {
			l.example = n.path
		}
	})
}

// mark changes what was found for the rules that a path's mounts enforce.
func (s *linkSearch) mark(p string, as func(*linked)) {
	caps := s.taken(p)
	for _, l := range s.b.c.Layers {
		for k, t := range tablesOf(l) {
			r := t.Deciding(p)
			if r == nil || removes(k, r)&caps == 0 {
				continue
			}
			if s.found[r] == nil {
				s.found[r] = &linked{}
			}
			as(s.found[r])
		}
	}
}

// why returns what the row of the rule says.
func (l *linked) why() string {
	var why []string
	const hint = "toolguard policy lint --scan lists them"
	switch {
	case l.files == 1:
		why = append(why, l.example+" has hard links that no mount covers: "+hint)
	case l.files > 1:
		why = append(why, fmt.Sprintf("%d files, such as %s, have hard links that no mount covers: %s", l.files, l.example, hint))
	}
	if l.limited {
		why = append(why, fmt.Sprintf("there are more than %d entries to search for hard links", MaxEntries))
	}
	if l.unlisted > 0 {
		why = append(why, fmt.Sprintf("%s can't be searched for hard links", entries(l.unlisted)))
	}
	return strings.Join(why, "; ")
}
