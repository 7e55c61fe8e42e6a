package launch

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Descriptors returns the descriptors that the command gets, with the same numbers: 0, 1, 2 and pass.
func Descriptors(pass []int) ([]int, error) {
	for _, fd := range pass {
		if fd < 3 || fd > 1<<16 {
			return nil, fmt.Errorf("descriptor %d can't be passed on: give a number from 3 to 65536", fd)
		}
		// Descriptors that toolguard inherited have no FD_CLOEXEC. Those that it opened itself have it, and aren't for the command.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return nil, fmt.Errorf("descriptor %d can't be passed on: it isn't open", fd)
		}
	}
	return append([]int{0, 1, 2}, pass...), nil
}

// CloseOnExec marks all open descriptors from 3 on, except some, to be closed when a program is executed. Linux's sessions do that in the child.
func CloseOnExec(except []int) error {
	dir, err := os.Open("/dev/fd") // lists this process's own descriptors, on macOS and Linux
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < 3 || slices.Contains(except, fd) {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && err != unix.EBADF {
			return fmt.Errorf("close descriptor %d: %w", fd, os.NewSyscallError("fcntl(F_SETFD)", err))
		}
	}
	return nil
}
