package cgroup

import (
	"os"

	"golang.org/x/sys/unix"
)

// Open opens the cgroup of a session that another process created.
func Open(path string) (*Group, error) {
	dir, err := open(path)
	if err != nil {
		return nil, err
	}
	_ = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) // see lockFolder; a lock of another process doesn't matter
	return &Group{path: path, dir: dir}, nil
}

func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
