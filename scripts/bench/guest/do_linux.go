package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// order is what a process is to do, and how often.
type order struct {
	what  string
	times int
	path  string
}

// do executes the order and returns the nanoseconds. It makes raw system calls: Go's own wrappers would cost more than the operation.
func (o order) do() error {
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	path, err := syscall.BytePtrFromString(o.path)
	if err != nil {
		return err
	}
	began := time.Now()
	for range o.times {
		switch o.what {
		case "open":
			err = open(path, 0)
		case "denied":
			err = open(path, syscall.EACCES)
		case "stat":
			err = stat(path)
		case "exec":
			err = start(o.path)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.what, o.path, err)
		}
	}
	_, err = fmt.Println(time.Since(began).Nanoseconds())
	return err
}

const atCwd = ^uintptr(99) // AT_FDCWD

func address(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// open opens, reads and closes a file, or expects a denial.
func open(path *byte, want syscall.Errno) error {
	var text [64]byte
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, atCwd, address(path), syscall.O_RDONLY, 0, 0, 0)
	if errno != 0 || want != 0 {
		return expect(errno, want)
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_READ, fd, address(&text[0]), uintptr(len(text)))
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	return expect(errno, 0)
}

func stat(path *byte) error {
	var st syscall.Stat_t
	_, _, errno := syscall.RawSyscall6(unix.SYS_NEWFSTATAT, atCwd, address(path), uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	return expect(errno, 0)
}

func expect(got, want syscall.Errno) error {
	if got != want {
		return fmt.Errorf("error %d, where %d was expected", got, want)
	}
	return nil
}

// start starts a program and waits for it.
func start(program string) error {
	pid, err := syscall.ForkExec(program, []string{program}, nil)
	if err != nil {
		return err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws != 0 {
		return errors.Join(fmt.Errorf("it ended with %#x", ws), err)
	}
	return nil
}
