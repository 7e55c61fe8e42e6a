package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Link pins a file that has several hard links: whatever the name that it's reached by, it gets no more than a rule gives
// that names it.
type Link struct {
	Rule  int32 // its Index
	Layer int16
	File  FileID
	Dev   uint32 // of the mount that the file is in (Mount.Dev), which isn't what stat tells of every file system; 0: not known
}

// fileAt is which file is at a path, and how many hard links it has; the zero FileID when there's none.
func fileAt(sys System, p string) (id FileID, links uint64, err error) {
	id, links, err = sys.File(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return FileID{}, 0, nil
	}
	return id, links, err
}

// links pins the files with several hard links that rules name.
func (c *compiler) links(all []Mount) {
	var at mounts
	for n, l := range c.out.Layers {
		for _, r := range l.FS.Literals() {
			_, own := procFolder(r.FS.Path)
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
					at = visible(all)
				}
				if m := at.of(r.FS.Path); m != nil {
					k.Dev = m.Dev
				}
				c.out.Links = append(c.out.Links, k)
			}
		}
	}
}

// file is which file is at a path, where that makes a difference.
func (c *Compiled) file(sys System, path string) (FileID, error) {
	if len(c.Links) == 0 {
		return FileID{}, nil
	}
	id, _, err := fileAt(sys, path)
	return id, err
}

// CheckFile is CheckFS for what really is at a path; the zero FileID when that isn't known.
func (c *Compiled) CheckFile(path string, id FileID, want Caps) Verdict {
	v := c.CheckFS(path, want)
	if !v.Allow || id == (FileID{}) {
		return v
	}
	for _, k := range c.Links {
		if k.File == id && want&^c.Rules[k.Rule].FS.Caps != 0 {
			return Verdict{Reason: c.Layers[k.Layer].denies(), Layer: k.Layer, Rule: k.Rule}
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
