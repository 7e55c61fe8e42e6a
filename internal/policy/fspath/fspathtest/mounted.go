package fspathtest

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Mounted is a tree with mounts, "ROOT AT" or "DEV ROOT AT" each, in the order in which they were made, and with files that have
// an inode number in common.
type Mounted struct {
	Tree
	Table  []fspath.Mount
	Inodes map[string]uint64
}

// Mounts returns the table.
func (m Mounted) Mounts() ([]fspath.Mount, error) { return m.Table, nil }

// File returns the file at a path: those of one inode number in one mounted file system are the same.
func (m Mounted) File(p string) (id fspath.FileID, links uint64, err error) {
	if _, err := m.Lstat(p); err != nil {
		return id, 0, err
	}
	for _, n := range m.Inodes {
		if n == m.Inodes[p] {
			links++
		}
	}
	if at := MountOf(m.Table, p); at != nil {
		id.Dev = uint64(at.Dev)
	}
	id.Inode = m.Inodes[p]
	return id, max(links, 1), nil
}

// Mount makes a table in which each mount is on the file system that was visible at its mount point before.
func Mount(lines ...string) (all []fspath.Mount) {
	for i, line := range append([]string{"/ /"}, lines...) {
		f := strings.Fields(line)
		m := fspath.Mount{ID: 20 + i, Parent: 1, Dev: 8 << 20, Root: f[len(f)-2], At: f[len(f)-1]}
		if len(f) == 3 {
			m.Dev |= uint32(f[0][0])
		}
		if on := MountOf(all, m.At); on != nil {
			m.Parent = on.ID
		}
		all = append(all, m)
	}
	return all
}

// MountOf returns the mount that a path leads into, found as the kernel finds it.
func MountOf(all []fspath.Mount, p string) *fspath.Mount {
	var at *fspath.Mount
	cross := func(dir string) {
		for i := 0; i < len(all); i++ {
			if all[i].At == dir && (at == nil || all[i].Parent == at.ID) {
				at, i = &all[i], -1
			}
		}
	}
	cross("/")
	words := strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
	for n := range words {
		cross("/" + strings.Join(words[:n+1], "/"))
	}
	return at
}
