package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// removeAll removes a folder with its contents, including folders without permissions, and trees that are too deep for a descriptor for each
// level or for a path. It moves every folder to the top before it empties it, so the time depends on the number of entries alone.
func removeAll(dir string) error {
	if unix.Rmdir(dir) == nil {
		return nil // most sessions leave nothing in it
	}
	top, err := openOwn(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	defer top.Close()
	e := remover{top: top}
	err = e.empty(top, func(name string) error {
		sub, err := openOwn(int(top.Fd()), name)
		if err != nil {
			return err
		}
		defer sub.Close()
		if err := e.empty(sub, func(name string) error { return e.moveToTop(sub, name) }); err != nil {
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

type remover struct {
	top  *os.File
	next int // the name of the last folder that was moved to the top
}

// empty removes the contents of a folder. It calls folder for each subfolder.
func (e *remover) empty(dir *os.File, folder func(name string) error) error {
	for {
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
		names, _ := dir.Readdirnames(1024) // after an error, rmdir fails
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

// moveToTop moves a folder to the top, with an unused name or that of an empty folder.
func (e *remover) moveToTop(from *os.File, name string) error {
	sub, err := openWithPermissions(int(from.Fd()), name) // the move writes its entry ".."
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

// openOwn opens a folder of this user for listing and changing its contents.
func openOwn(at int, name string) (*os.File, error) {
	dir, err := openWithPermissions(at, name)
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

// openWithPermissions opens a folder with O_PATH, and grants its owner all permissions.
func openWithPermissions(at int, name string) (fd int, err error) {
	fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700) // after an error, the next operation fails
	}
	return fd, err
}
