package proc

import (
	"errors"

	"golang.org/x/sys/unix"
)

// DescendsFrom reports whether a process has an ancestor of a kind. known is false where it has ended.
func DescendsFrom(pid int, from func(pid int) bool) (is, known bool) {
	for range 10 { // its ancestors can end meanwhile
		is, err := hasAncestor(pid, from)
		if err == nil {
			return is, true
		}
	}
	return false, false
}

// hasAncestor is descends as long as nobody among the ancestors ends. Another process can get the number of one that has ended: so a
// parent counts that its child still has after it was looked at.
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
