package terminal

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrNoTerminal means that there is nobody to ask.
var ErrNoTerminal = errors.New("--ask needs a terminal, and this process has none: leave --ask out, and run 'toolguard approvals watch' in another terminal")

// device is the person's terminal.
type device struct {
	file  *os.File
	fd    int
	saved *term.State // before raw mode; nil: not in raw mode
}

func openDevice() (*device, error) {
	flags := unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	if runtime.GOOS == "linux" {
		flags |= unix.O_NONBLOCK // with a description of its own, so no other process is affected. macOS can't wait for /dev/tty by kqueue
	}
	fd, err := unix.Open("/dev/tty", flags, 0)
	if err != nil {
		return nil, ErrNoTerminal
	}
	return &device{file: os.NewFile(uintptr(fd), "/dev/tty"), fd: fd}, nil
}

// foreground reports whether this process may read the terminal. err means that the terminal has gone.
func (d *device) foreground() (bool, error) {
	group, err := unix.IoctlGetInt(d.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp(), err
}

// enterRaw sets raw mode, also again: a shell may have ended it while this process was stopped.
func (d *device) enterRaw() error {
	saved, err := term.MakeRaw(d.fd)
	if err != nil {
		return fmt.Errorf("the terminal can't be set to raw mode: %w", err)
	}
	if d.saved == nil {
		d.saved = saved
	}
	return nil
}

// restore ends raw mode. It's safe in the background, too, where the terminal is another process's.
func (d *device) restore() {
	if d.saved == nil {
		return
	}
	if ok, _ := d.foreground(); ok {
		_ = term.Restore(d.fd, d.saved)
	}
	d.saved = nil
}

func (d *device) size() *unix.Winsize {
	ws, err := unix.IoctlGetWinsize(d.fd, unix.TIOCGWINSZ)
	if err != nil || ws.Row == 0 || ws.Col == 0 {
		return &unix.Winsize{Row: 24, Col: 80}
	}
	return ws
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// openPair makes a pseudoterminal with the size and the settings of the person's terminal.
func (d *device) openPair() (master, slave *os.File, err error) {
	first, slave, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("a pseudoterminal: %w", err)
	}
	defer first.Close()
	if settings, err := unix.IoctlGetTermios(d.fd, getTermios); err == nil {
		_ = unix.IoctlSetTermios(int(slave.Fd()), setTermios, settings)
	}
	fd, err := unix.FcntlInt(first.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		slave.Close()
		return nil, nil, os.NewSyscallError("dup", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that closing it ends a read
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	master = os.NewFile(uintptr(fd), "pseudoterminal")
	setSize(master, d.size())
	return master, slave, nil
}

// setSize sets the size of a pseudoterminal. The kernel signals the foreground processes if it's another one.
func setSize(master *os.File, ws *unix.Winsize) {
	if raw, err := master.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, ws) })
	}
}
