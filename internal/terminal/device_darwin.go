package terminal

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// discardInput discards what was typed and not read.
func (d *device) discardInput() { _ = unix.IoctlSetPointerInt(d.fd, unix.TIOCFLUSH, 1) } // FREAD
