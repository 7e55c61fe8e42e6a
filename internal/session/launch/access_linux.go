package launch

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// accessible returns an error if this process may not execute file.
func accessible(file string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "exec", Path: file, Err: err}
	}
	return nil
}
