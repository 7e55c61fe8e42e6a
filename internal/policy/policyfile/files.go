package policyfile

import (
	"errors"
	"fmt"
	"io"
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
// regular files.
func read(path string, limit int) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	// One read is enough for nearly every policy.
	b := make([]byte, min(info.Size()+1, int64(limit)))
	n, err := io.ReadFull(f, b)
	if err == nil && len(b) < limit {
		rest, err := io.ReadAll(io.LimitReader(f, int64(limit-n)))
		return append(b, rest...), info, err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:n], info, err
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
	b, info, err := read(path, limit)
	if err != nil {
		return nil, err
	}
	return b, trusted(path, info)
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
		if err := trusted(dir, info); err != nil {
			return err
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// trusted tells whether only root can have written what info describes.
func trusted(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("%s: the owner is unknown", path)
	case st.Uid != 0:
		return fmt.Errorf("%s is owned by user %d, not by root", path, st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s is writable by others than root (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}
