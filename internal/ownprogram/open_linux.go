package ownprogram

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Open opens a program of toolguard's for execution. It may run as root or with secrets, so it must be as trustworthy as toolguard itself. The
// checked file is the one that is executed, even if its path is replaced meanwhile. does is a phrase about the program for the error.
func Open(name, does string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return -1, fmt.Errorf("find toolguard's own program: %w", err)
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &own); err != nil {
		return -1, &os.PathError{Op: "stat", Path: self, Err: err}
	}
	return open(name, does, append([]string{filepath.Dir(self)}, folders...), own.Uid)
}

// open opens the first existing file. It must be a file of root or of the owner that no other user can write.
func open(name, does string, folders []string, owner uint32) (int, error) {
	for _, dir := range folders {
		file := filepath.Join(dir, name)
		fd, err := unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: file, Err: err}
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Uid == 0 || st.Uid == owner) && st.Mode&0o022 == 0 {
			return fd, nil
		}
		_ = unix.Close(fd)
		if err != nil {
			return -1, &os.PathError{Op: "stat", Path: file, Err: err}
		}
		return -1, fmt.Errorf("%s must belong to root or to toolguard's owner, and no other user may be able to write it", file)
	}
	return -1, fmt.Errorf("%s, which %s, isn't in toolguard's folder (%s): install it there", name, does, folders[0])
}
