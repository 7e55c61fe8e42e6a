package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const suffix = ".jsonl"

// fileName returns the name of a spool's file. Names sort like numbers.
func fileName(n uint64) string { return fmt.Sprintf("%012d%s", n, suffix) }

// files returns the numbers of a folder's files in order.
func files(folder string) (list []uint64, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		n, _ := strconv.ParseUint(strings.TrimSuffix(e.Name(), suffix), 10, 63)
		if e.Name() == fileName(n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Replace atomically replaces a file, and returns when it is on the disk.
func Replace(name string, text []byte) error {
	_ = os.Remove(name + ".new") // left by a crash, or a planted symlink
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(name+".new", name), syncFolder(filepath.Dir(name)))
}

// openRegular opens a regular file for reading. It neither follows a symlink nor blocks on a FIFO, which a hostile copy of a spool
// may contain.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s isn't a regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

var errSize = errors.New("longer than the maximum")

// readSmall reads a regular file of at most limit bytes.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: %w of %d bytes", name, errSize, limit)
	}
	return text, err
}

// syncFolder writes a folder's entries to the disk.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// isNotExist reports whether an error is that of a missing file.
func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
