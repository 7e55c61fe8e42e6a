package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Link pins a file with several hard links: under any of its names it has at most the capabilities of the rule that names it.
type Link struct {
	Rule  int32 // its Index
	Layer int16
	File  fspath.FileID
	Dev   uint32 // of the mount that the file is in (Mount.Dev), from which stat's device differs on some file systems; 0: unknown
}

// fileAt returns the file at a path, and the number of its hard links; the zero FileID if there is none.
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
				continue // one of toolguard's folders that this user can't reach: its name protects it
			}
			if err != nil {
				c.fail(r.Position, fmt.Errorf("%s: can't determine whether %s has several hard links: %w", r.ID, r.FS.Path, err), "")
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

// LinkedFile returns the file at a path if the policy pins any file with several hard links, else the zero FileID.
func (c *Compiled) LinkedFile(sys fspath.FileSystem, path string) (fspath.FileID, error) {
	if len(c.Links) == 0 {
		return fspath.FileID{}, nil
	}
	id, _, err := fileAt(sys, path)
	return id, err
}

// CheckFile is CheckFS for the file at a path; the zero FileID if it's unknown.
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

// Pinned reports whether a rule applies to a file under all of its hard links.
func (c *Compiled) Pinned(r *Rule) bool {
	return slices.ContainsFunc(c.Links, func(k Link) bool { return k.Rule == r.Index })
}
