package terminal

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// discardInput discards what was typed and not read.
func (d *device) discardInput() { _ = unix.IoctlSetInt(d.fd, unix.TCFLSH, unix.TCIFLUSH) }
