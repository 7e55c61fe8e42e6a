package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read returns the bytes of a regular file that has some, or its first limit bytes when it is larger.
func (Machine) Read(path string, limit int) ([]byte, error) {
	b, _, err := read(path, limit)
	return b, err
}

// read opens a path only if it is a regular file, since opening a device can have an effect, and checks the opened file again. It opens
// without blocking, so that a fifo that was put there in between can't delay the start. It uses system calls: package os
// would start its poller for the one file that most starts read.
func read(path string, limit int) ([]byte, *syscall.Stat_t, error) {
	fail := func(op string, err error) ([]byte, *syscall.Stat_t, error) {
		return nil, nil, &fs.PathError{Op: op, Path: path, Err: err}
	}
	if _, err := ordinary(func(st *syscall.Stat_t) error { return syscall.Stat(path, st) }); err != nil {
		return fail("stat", err)
	}
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	})
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another program holds a lease on it: try again in a minute")
	}
	if err != nil {
		return fail("open", err)
	}
	defer syscall.Close(fd)
	st, err := ordinary(func(st *syscall.Stat_t) error { return syscall.Fstat(fd, st) })
	if err != nil {
		return fail("stat", err)
	}
	b, err := contents(fd, st.Size, limit)
	if err != nil {
		return fail("read", err)
	}
	return b, st, nil
}

// ordinary rejects all files but regular ones, and those of size 0: the kernel generates the content of many of these,
// some block their reader, and some, such as /proc/kmsg, are consumed by reading.
func ordinary(stat func(*syscall.Stat_t) error) (*syscall.Stat_t, error) {
	st := new(syscall.Stat_t)
	_, err := retry(func() (int, error) { return 0, stat(st) })
	switch {
	case err != nil:
		return nil, err
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return nil, errors.New("not a regular file")
	case st.Size == 0:
		return nil, errors.New("it's empty, or not a file on a disk")
	}
	return st, nil
}

// contents reads a file of a known size. A file that grows meanwhile is an error: part of a policy may mean something else.
func contents(fd int, size int64, limit int) ([]byte, error) {
	b := make([]byte, min(size+1, int64(limit)))
	for at := 0; at < len(b); {
		n, err := retry(func() (int, error) { return syscall.Read(fd, b[at:]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return b[:at], nil
		}
		at += n
	}
	if len(b) < limit {
		return nil, errors.New("it grew while it was read: try again")
	}
	return b, nil
}

// retry calls f again when a signal interrupted it.
func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// ReadTrusted is Read for a file that only root may have written, itself and every folder above it. It tests the file that it opened, not the name. The folders above are tested by name: as long as only root
// can change each of them, no other user can make the name lead elsewhere between the two.
func (Machine) ReadTrusted(path string, limit int) ([]byte, error) {
	if err := trustedFolders(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if info.Mode()&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("a symlink")}
	}
	b, st, err := read(path, limit)
	if err != nil {
		return nil, err
	}
	return b, trusted(path, st)
}

// List returns the names in a folder that only root may change, sorted.
func (Machine) List(dir string) ([]string, error) {
	// A folder that doesn't exist needs no trust.
	if _, err := os.Lstat(dir); err != nil {
		return nil, err
	}
	if err := trustedFolders(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Real returns the canonical path of an existing file.
func (Machine) Real(path string) (string, error) { return filepath.EvalSymlinks(path) }

// Exists reports whether something is at a path.
func (Machine) Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// trustedFolders checks dir and every folder above it.
func trustedFolders(dir string) error {
	for {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: the owner is unknown", dir)
		}
		if err := trusted(dir, st); err != nil {
			return err
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// trusted reports whether only root can have written what st describes. The root folder may belong to the user who made the container: mount points
// in it can't be replaced.
func trusted(path string, st *syscall.Stat_t) error {
	sandbox := path == "/" && int(st.Uid) == os.Geteuid() && hasOverflow()
	switch {
	case !OwnedByRoot(st.Uid) && !sandbox:
		return fmt.Errorf("%s is owned by user %d, not by root", path, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s is writable by users other than root (mode %04o)", path, st.Mode&0o777)
	}
	return nil
}
