package mounts

import (
	"crypto/rand"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// CanaryTree is a folder with a file or folder for a mount of each kind. Sessions of the same user may write in /tmp while it's made: each step is
// relative to an open folder, follows no symlink and replaces nothing, and the names are random.
type CanaryTree struct {
	Dir  string
	Name string // of the file that the canary makes
}

// NewCanaryTree makes a tree, which the caller removes. TMPDIR isn't used: a policy may let a session write it.
func NewCanaryTree() (*CanaryTree, error) {
	c := &CanaryTree{"/tmp/toolguard-canary-" + rand.Text(), rand.Text()}
	top, err := newFolder(unix.AT_FDCWD, c.Dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	err = newFile(top, "hidden")
	for _, folder := range []struct{ name, sub, file string }{{"masked", "", ""}, {"covered", "", "file"}, {"above", "below", ""}} {
		fd, e := newFolder(top, folder.name)
		if e == nil && folder.sub != "" {
			var sub int
			if sub, e = newFolder(fd, folder.sub); e == nil {
				_ = unix.Close(sub)
			}
		}
		if e == nil && folder.file != "" {
			e = newFile(fd, folder.file)
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Remove removes the tree.
func (c *CanaryTree) Remove() error { return os.RemoveAll(c.Dir) }

func newFolder(at int, name string) (fd int, err error) {
	if err := unix.Mkdirat(at, name, 0o700); err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

func newFile(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	_, err = unix.Write(fd, []byte("secret\n"))
	return errors.Join(err, unix.Close(fd))
}
