package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSymlinks is how many symlinks a path may have, as in the kernel.
const maxSymlinks = 40

// Folder is a folder for sockets that was checked. It stays the same if its path leads elsewhere later.
type Folder struct {
	Path string // as it was given
	fd   *os.File
}

// Close closes it.
func (f *Folder) Close() error { return f.fd.Close() }

// name is a path of a file in the folder, short enough for the address of a socket.
func (f *Folder) name(file string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", f.fd.Fd(), file) }

// Open opens a folder in which only the user can make files, on a path that nobody else can redirect. If it is missing the error is
// fs.ErrNotExist.
func Open(path string) (*Folder, error) {
	f, err := openChecked(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%s is owned by user %d, and must be this user's (%d)", path, st.Uid, os.Geteuid())
	} else if err == nil && st.Mode&0o077 != 0 {
		err = fmt.Errorf("%s is open to other users (mode %04o): chmod 700 %s", path, st.Mode&0o777, path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Folder{path, f}, nil
}

// Make opens a folder as Open does, and creates it and its missing ancestors first.
func Make(path string) (*Folder, error) {
	at, missing := filepath.Clean(path), []string(nil)
	var f *os.File
	for {
		var err error
		if f, err = openChecked(at); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == "/" {
			return nil, err
		}
		at, missing = filepath.Dir(at), append(missing, filepath.Base(at))
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if len(missing) > 0 && st.Uid != uint32(os.Geteuid()) {
		return nil, fmt.Errorf("create %s: %s is owned by user %d, and must be this user's (%d)", path, at, st.Uid, os.Geteuid())
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := unix.Mkdirat(int(f.Fd()), missing[i], 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, &fs.PathError{Op: "create", Path: path, Err: err}
		}
		next, err := unix.Openat(int(f.Fd()), missing[i], unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		_ = f.Close()
		f = os.NewFile(uintptr(next), missing[i])
	}
	return Open(path)
}

// openChecked opens a folder part by part. Each part, and each symlink on the way, belongs to root or the user, and nobody else can replace it.
func openChecked(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q isn't an absolute path", path)
	}
	fail := func(at int, err error) (*os.File, error) {
		_ = unix.Close(at)
		return nil, err
	}
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for todo, links := split(path), 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		if err := checkParent(at, path); err != nil {
			return fail(at, err)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(at, part, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fail(at, &fs.PathError{Op: "open", Path: path, Err: err})
		}
		if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
			return fail(at, fmt.Errorf("%s: %s on its path is owned by user %d, who can redirect it", path, part, st.Uid))
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			target := make([]byte, unix.PathMax)
			n, err := unix.Readlinkat(at, part, target)
			if links++; err != nil || links > maxSymlinks {
				return fail(at, &fs.PathError{Op: "open", Path: path, Err: errors.Join(unix.ELOOP, err)})
			}
			todo = append(split(string(target[:n])), todo...)
			if target[0] == '/' {
				part = "/"
			} else {
				continue
			}
		}
		next, err := unix.Openat(at, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail(at, &fs.PathError{Op: "open", Path: path, Err: err})
		}
		_ = unix.Close(at)
		at = next
	}
	return os.NewFile(uintptr(at), path), nil
}

// checkParent returns an error for a folder in which another user can replace files.
func checkParent(at int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	switch {
	case st.Uid != 0 && st.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s: a folder on its path is owned by user %d, who can redirect it", path, st.Uid)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("%s: other users can write a folder on its path (mode %04o), and so redirect it", path, st.Mode&0o7777)
	}
	return nil
}

func split(path string) (parts []string) {
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}
