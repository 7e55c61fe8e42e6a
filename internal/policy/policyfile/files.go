package policyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Files is what loading needs of the file system. Errors are those of package os.
type Files interface {
	// Read returns a regular file's bytes, or its first limit bytes when it's larger.
	Read(path string, limit int) ([]byte, error)
	// ReadTrusted is Read for a file that only root may have written, itself and every folder above it.
	ReadTrusted(path string, limit int) ([]byte, error)
	// List returns the names in a folder that only root may change, sorted.
	List(dir string) ([]string, error)
	// Exists tells whether something is at a path.
	Exists(path string) bool
}

// OS is the machine's own file system.
var OS Files = machine{}

type machine struct{}

func (machine) Read(path string, limit int) ([]byte, error) {
	b, _, err := read(path, limit)
	return b, err
}

// read opens without blocking, so that a fifo in place of a policy can't hold the start up, and refuses all but
// regular files. It asks the system itself: package os would set its poller up for the one file that most starts read.
func read(path string, limit int) ([]byte, *syscall.Stat_t, error) {
	fail := func(op string, err error) ([]byte, *syscall.Stat_t, error) {
		return nil, nil, &fs.PathError{Op: op, Path: path, Err: err}
	}
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return fail("open", err)
	}
	defer syscall.Close(fd)
	st := new(syscall.Stat_t)
	if err := syscall.Fstat(fd, st); err != nil {
		return fail("stat", err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return fail("read", errors.New("not a regular file"))
	}
	b := make([]byte, min(st.Size+1, int64(limit)))
	for at := 0; ; {
		n, err := retry(func() (int, error) { return syscall.Read(fd, b[at:]) })
		if err != nil {
			return fail("read", err)
		}
		if at += n; n == 0 || at == limit {
			return b[:at], st, nil
		}
		if at == len(b) { // it grew meanwhile
			b = append(b, make([]byte, min(len(b), limit-at))...)
		}
	}
}

// retry calls f again when a signal interrupted it.
func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// ReadTrusted tests the file that it opened, not the name. The folders above are tested by name: as long as only root
// can change each of them, nobody else can make the name lead elsewhere between the two.
func (machine) ReadTrusted(path string, limit int) ([]byte, error) {
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

func (machine) List(dir string) ([]string, error) {
	// Nobody asks for the trust of a folder that isn't there.
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

func (machine) Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// trustedFolders tests dir and every folder above it.
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

// trusted tells whether only root can have written what st describes.
func trusted(path string, st *syscall.Stat_t) error {
	switch {
	case st.Uid != 0:
		return fmt.Errorf("%s is owned by user %d, not by root", path, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s is writable by others than root (mode %04o)", path, st.Mode&0o777)
	}
	return nil
}
