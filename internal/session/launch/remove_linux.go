package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// removeAll removes a folder and all that is in it, whatever a user may have made of it: folders without any permission, and
// so deep a tree that neither a descriptor nor a path for each level could be had. Every folder found is moved to the top
// before it's emptied, so that the time it takes grows with the number of entries alone.
func removeAll(dir string) error {
	if unix.Rmdir(dir) == nil {
		return nil // most sessions leave nothing in it
	}
	top, err := openOwn(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	defer top.Close()
	e := emptier{top: top}
	err = e.empty(top, func(name string) error {
		sub, err := openOwn(int(top.Fd()), name)
		if err != nil {
			return err
		}
		defer sub.Close()
		if err := e.empty(sub, func(name string) error { return e.raise(sub, name) }); err != nil {
			return err
		}
		return unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR)
	})
	if err == nil {
		err = unix.Rmdir(dir)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

type emptier struct {
	top  *os.File
	next int // what a folder that is moved to the top is named
}

// empty removes what is in a folder, with folder for the folders among it.
func (e *emptier) empty(dir *os.File, folder func(name string) error) error {
	for {
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
		names, _ := dir.Readdirnames(1024) // an error is its end, or told by rmdir
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			err := unix.Unlinkat(int(dir.Fd()), name, 0)
			if errors.Is(err, unix.EISDIR) {
				err = folder(name)
			}
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
}

// raise moves a folder to the top, under a name that is free there or an empty folder's.
func (e *emptier) raise(from *os.File, name string) error {
	sub, err := takeBack(int(from.Fd()), name) // its own entry ".." is to be written
	if err != nil {
		return err
	}
	_ = unix.Close(sub)
	for {
		e.next++
		err := unix.Renameat(int(from.Fd()), name, int(e.top.Fd()), fmt.Sprint(e.next))
		if err != unix.EEXIST && err != unix.ENOTEMPTY && err != unix.ENOTDIR {
			return err
		}
	}
}

// openOwn opens a folder of this user's to list it and to change what is in it.
func openOwn(at int, name string) (*os.File, error) {
	dir, err := takeBack(at, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// takeBack opens a folder by its mere name, and gives its owner all permissions.
func takeBack(at int, name string) (fd int, err error) {
	fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700) // where that fails what follows tells
	}
	return fd, err
}
