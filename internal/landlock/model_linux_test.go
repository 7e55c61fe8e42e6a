package landlock

import (
	"io/fs"
	"path"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// forest is a file tree in memory.
type forest map[string]fspath.Kind

func (f forest) Lstat(p string) (fspath.Kind, error) {
	if k, ok := f[p]; ok {
		return k, nil
	}
	return 0, fs.ErrNotExist
}

func (f forest) Readlink(string) (string, error) { return "", fs.ErrInvalid }

func (f forest) Mounts() ([]fspath.Mount, error) { return nil, nil }

func (f forest) File(string) (fspath.FileID, uint64, error) {
	return fspath.FileID{}, 0, fs.ErrNotExist
}

// model decides as Landlock does under a plan, by its documentation: the grants of one ruleset along the chain of folders add up, and every
// ruleset must grant the access. A grant is tied to the file that was at its path at the start.
type model struct {
	plan  *Plan
	tree  forest
	inode map[string]int // the file at a path now
	first map[string]int // the file there when the plan was applied
}

func newModel(plan *Plan, tree forest) model {
	k := model{plan, forest{}, map[string]int{}, map[string]int{}}
	for p, kind := range tree {
		k.tree[p], k.inode[p], k.first[p] = kind, len(k.inode)+1, len(k.inode)+1
	}
	return k
}

func (k model) access(rs *Ruleset, p string) (access uint64) {
	for at := p; ; at = path.Dir(at) {
		for _, g := range rs.Grants {
			if n := k.first[g.Path]; n == 0 || n != k.inode[at] {
				continue
			}
			a := g.Access
			if k.tree[at] != fspath.Dir {
				a &= fileRights
			}
			access |= a
		}
		if at == "/" {
			return access
		}
	}
}

// move renames, with everything beneath.
func (k model) move(old, new string) {
	k.remove(new)
	for p := range k.tree {
		if beneath(p, old) {
			q := new + strings.TrimPrefix(p, old)
			k.tree[q], k.inode[q] = k.tree[p], k.inode[p]
			delete(k.tree, p)
			delete(k.inode, p)
		}
	}
}

func (k model) remove(p string) {
	delete(k.tree, p)
	delete(k.inode, p)
}

func (k model) make(p string, kind fspath.Kind, inode int) { k.tree[p], k.inode[p] = kind, inode }

// empty reports whether there are no files beneath p.
func (k model) empty(p string) bool {
	for q := range k.tree {
		if q != p && beneath(q, p) {
			return false
		}
	}
	return true
}

// step performs an operation if both Landlock and the kernel's other checks allow it.
func (k model) step(what int, p, q string, fresh int) {
	kind, there := k.tree[p]
	over, exists := k.tree[q]
	parent := path.Dir(p)
	switch {
	case p == "/" || q == "/" || k.tree[parent] != fspath.Dir || k.tree[path.Dir(q)] != fspath.Dir:
	case what == 0 && !there && k.allows(parent, ll.AccessFSMakeReg):
		k.make(p, fspath.File, fresh)
	case what == 1 && !there && k.allows(parent, ll.AccessFSMakeDir):
		k.make(p, fspath.Dir, fresh)
	case what == 2 && there && k.empty(p) && k.allows(parent, k.removes(kind)):
		k.remove(p)
	case !there || beneath(q, p) || beneath(p, q):
	case what == 3 && kind != fspath.Dir && !exists && k.link(p, q):
		k.make(q, kind, k.inode[p])
	case exists && ((kind == fspath.Dir) != (over == fspath.Dir) || !k.empty(q)):
	case what >= 4 && k.rename(p, q):
		k.move(p, q)
	}
}

func (k model) allows(p string, want uint64) bool {
	for i := range k.plan.Rulesets {
		rs := &k.plan.Rulesets[i]
		if want&rs.FS&^k.access(rs, p) != 0 {
			return false
		}
	}
	return true
}

// noGain is the kernel's condition for a move or link into another folder: the new folder grants no right, of those for the kind of file, that
// the old one doesn't.
func (k model) noGain(old, newDir string, dir bool) bool {
	for i := range k.plan.Rulesets {
		rs := &k.plan.Rulesets[i]
		counts := rs.FS
		if !dir {
			counts &= fileRights
		}
		if k.access(rs, newDir)&^k.access(rs, old)&counts != 0 {
			return false
		}
	}
	return true
}

func (k model) makes(kind fspath.Kind) uint64 {
	if kind == fspath.Dir {
		return ll.AccessFSMakeDir
	}
	return ll.AccessFSMakeReg
}

func (k model) removes(kind fspath.Kind) uint64 {
	if kind == fspath.Dir {
		return ll.AccessFSRemoveDir
	}
	return ll.AccessFSRemoveFile
}

func (k model) rename(old, new string) bool {
	kind := k.tree[old]
	from, to := k.removes(kind), k.makes(kind)
	if there, ok := k.tree[new]; ok {
		to |= k.removes(there)
	}
	od, nd := path.Dir(old), path.Dir(new)
	if od == nd {
		return k.allows(od, from|to)
	}
	return k.allows(od, from|ll.AccessFSRefer) && k.allows(nd, to|ll.AccessFSRefer) && k.noGain(old, nd, kind == fspath.Dir)
}

func (k model) link(old, new string) bool {
	od, nd := path.Dir(old), path.Dir(new)
	if od == nd {
		return k.allows(nd, ll.AccessFSMakeReg)
	}
	return k.allows(od, ll.AccessFSRefer) && k.allows(nd, ll.AccessFSMakeReg|ll.AccessFSRefer) && k.noGain(old, nd, false)
}
