package proc

import (
	"errors"

	"golang.org/x/sys/unix"
)

// DescendsFrom reports whether a process has an ancestor of a kind. known is false if the process has ended.
func DescendsFrom(pid int, from func(pid int) bool) (is, known bool) {
	for range 10 { // its ancestors can end meanwhile
		is, err := hasAncestor(pid, from)
		if err == nil {
			return is, true
		}
	}
	return false, false
}

// hasAncestor is one attempt of DescendsFrom, which fails if an ancestor ends meanwhile. Another process can get the pid of an ended one, so a
// parent counts only if it still is the child's parent after it was read.
func hasAncestor(pid int, from func(pid int) bool) (bool, error) {
	parent, err := Parent(pid)
	for err == nil && parent > 1 && !from(parent) {
		grandparent, gone := Parent(parent)
		still, ended := Parent(pid)
		if err = errors.Join(gone, ended); err == nil && still != parent {
			err = unix.ESRCH
		}
		pid, parent = parent, grandparent
	}
	return parent > 1, err
}
