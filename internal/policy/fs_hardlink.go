package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Link pins a file that has several hard links: whatever the name that it's reached by, it gets no more than a rule gives
// that names it.
type Link struct {
	Rule  int32 // its Index
	Layer int16
	File  fspath.FileID
	Dev   uint32 // of the mount that the file is in (Mount.Dev), which isn't what stat tells of every file system; 0: not known
}

// fileAt is which file is at a path, and how many hard links it has; the zero FileID when there's none.
func fileAt(sys fspath.FileSystem, p string) (id fspath.FileID, links uint64, err error) {
	id, links, err = sys.File(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fspath.FileID{}, 0, nil
	}
	return id, links, err
}

// links pins the files with several hard links that rules name.
func (c *compiler) links(all []fspath.Mount) {
	var at fspath.MountTable
	for n, l := range c.out.Layers {
		for _, r := range l.FS.Literals() {
			_, own := fspath.ProcFolder(r.FS.Path)
			if own || r.FS.Dir || r.FS.Missing || r.FS.Caps == AllCaps || r.Grants() || l.FS.Deciding(r.FS.Path) != r {
				continue
			}
			id, links, err := fileAt(c.sys, r.FS.Path)
			if l.Authority == Builtin && errors.Is(err, fs.ErrPermission) {
				continue // a folder of toolguard's own, which this user doesn't get to: it's known by its name
			}
			if err != nil {
				c.fail(r.Place, fmt.Errorf("%s: whether %s has other names can't be told: %w", r.ID, r.FS.Path, err), "")
			}
			if links > 1 {
				k := Link{Rule: r.Index, Layer: int16(n), File: id}
				if at == nil {
					at = fspath.VisibleMounts(all)
				}
				if m := at.Of(r.FS.Path); m != nil {
					k.Dev = m.Dev
				}
				c.out.Links = append(c.out.Links, k)
			}
		}
	}
}

// FileAt is which file is at a path, where that makes a difference.
func (c *Compiled) FileAt(sys fspath.FileSystem, path string) (fspath.FileID, error) {
	if len(c.Links) == 0 {
		return fspath.FileID{}, nil
	}
	id, _, err := fileAt(sys, path)
	return id, err
}

// CheckFile is CheckFS for what really is at a path; the zero FileID when that isn't known.
func (c *Compiled) CheckFile(path string, id fspath.FileID, want Caps) Verdict {
	v := c.CheckFS(path, want)
	if !v.Allow || id == (fspath.FileID{}) {
		return v
	}
	for _, k := range c.Links {
		if k.File == id && want&^c.Rules[k.Rule].FS.Caps != 0 {
			return Verdict{Reason: c.Layers[k.Layer].DenialReason(), Layer: k.Layer, Rule: k.Rule}
		}
	}
	return v
}

// Pinned says whether a rule is about a file that has several hard links, under all of them.
func (c *Compiled) Pinned(r *Rule) bool {
	for _, k := range c.Links {
		if k.Rule == r.Index {
			return true
		}
	}
	return false
}
