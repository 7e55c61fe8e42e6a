package cgroup

import (
	"os"

	"golang.org/x/sys/unix"
)

// Open finds the cgroup of a session that another process made, by its path.
func Open(path string) (*Group, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Group{path: path, dir: os.NewFile(uintptr(fd), path)}, nil
}
