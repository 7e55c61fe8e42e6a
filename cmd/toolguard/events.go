package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session/streams"
)

// inherited returns the descriptor that --events names; ok is false when it names a file.
func (f *execFlags) inherited() (n string, ok bool) {
	if f.events == "-" {
		return "1", true
	}
	return strings.CutPrefix(f.events, "fd:")
}

// ownEvents makes the file that --events names one that no policy lets a command write: it's the command's own record.
func (f *execFlags) ownEvents() {
	file := f.events
	if n, ok := f.inherited(); ok {
		info, err := os.Stat("/proc/self/fd/" + n)
		if err != nil || !info.Mode().IsRegular() {
			return // a pipe, a socket, a terminal
		}
		file, _ = os.Readlink("/proc/self/fd/" + n)
	}
	if file != "" && !slices.Contains(f.Own, file) {
		f.Own = append(f.Own, file)
	}
}

// openEvents opens the target that --events names. end waits until it has written its queue, and reports what it dropped.
func (a *app) openEvents(f *execFlags) (q *event.Queue, end func(), err error) {
	if f.events == "" || f.queue != nil {
		return f.queue, func() {}, nil
	}
	format, err := event.ParseFormat(f.format)
	if err != nil {
		return nil, nil, err
	}
	file, err := f.eventsTarget()
	if err != nil {
		return nil, nil, err
	}
	w, err := event.NewWriter(file, format)
	if err != nil {
		return nil, nil, fmt.Errorf("begin the events: %w", err)
	}
	w.Version = buildInfo().Version
	q = event.NewQueue(w)
	return q, func() { a.endEvents(f, q, file) }, nil
}

// endEvents waits for the queue, and reports the dropped events.
func (a *app) endEvents(f *execFlags, q *event.Queue, file *os.File) {
	missing, why := q.Close()
	if f.unrecorded {
		return // the error reports it
	}
	if missing > 0 {
		a.err.Warn("%s didn't reach --events %s: %v", output.Count(missing, "event"), f.events, why)
		return // a write may still be under way
	}
	if _, inherited := f.inherited(); inherited {
		return
	}
	if err := file.Close(); err != nil {
		a.err.Warn("the events may not be complete: %v", err)
	}
}

// eventsTarget opens the target of the events, unless the command could rewrite it.
func (f *execFlags) eventsTarget() (*os.File, error) {
	n, ok := f.inherited()
	if !ok {
		return f.openFile()
	}
	fd, err := streams.Inherited(n)
	if err != nil {
		return nil, fmt.Errorf("--events %s: %w", f.events, err)
	}
	if slices.Contains(f.passFDs, fd) {
		return nil, fmt.Errorf("--events %s: the command would get this descriptor too, by --pass-fd", f.events)
	}
	return os.NewFile(uintptr(fd), f.events), f.notShared(fd)
}

// openFile opens the file that --events names. It's appended to, and only its owner may read it: it shows what the command did
// and what it was called with. It isn't opened through a symlink, which an earlier command may have left.
func (f *execFlags) openFile() (*os.File, error) {
	file, err := os.OpenFile(f.events, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil && !errors.Is(err, unix.ENXIO) { // a socket, or a pipe without a reader
		return nil, fmt.Errorf("--events %s: %w: name a file that you can write", f.events, errors.Unwrap(err))
	}
	if info, bad := file.Stat(); err != nil || bad != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--events %s: it isn't a regular file: open it yourself and name it as --events fd:N", f.events)
	}
	return file, f.notShared(int(file.Fd()))
}

// notShared rejects a file that the command gets as one of its descriptors: it could truncate and overwrite it. Events
// in a pipe or on a terminal can't be removed that way.
func (f *execFlags) notShared(fd int) error {
	var events, kept unix.Stat_t
	if err := unix.Fstat(fd, &events); err != nil {
		return fmt.Errorf("--events %s: %w", f.events, os.NewSyscallError("fstat", err))
	}
	if events.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	for _, n := range append([]int{0, 1, 2}, f.passFDs...) {
		flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY || unix.Fstat(n, &kept) != nil {
			continue // not there, or harmless
		}
		if kept.Dev == events.Dev && kept.Ino == events.Ino {
			return fmt.Errorf("--events %s: the command has this file too, as its descriptor %d, and could rewrite the events: "+
				"give them a file of their own", f.events, n)
		}
	}
	return nil
}
