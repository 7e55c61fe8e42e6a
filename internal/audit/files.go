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

// fileName is the name of a spool's file. Names have the order of the numbers.
func fileName(n uint64) string { return fmt.Sprintf("%012d%s", n, suffix) }

// files are the numbers of a folder's files, in order.
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

// Replace writes a file anew, all of it or nothing, and has it on the disk.
func Replace(name string, text []byte) error {
	_ = os.Remove(name + ".new") // what was left, or put there to be followed
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

// openRegular opens a regular file to read it. Nothing else that is in its place, as in a copy from somebody else, has its reader wait, or follow.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

var errSize = errors.New("it's longer than any")

// readSmall reads a regular file that is no longer than it may be.
func readSmall(name string, most int64) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: %w of %d bytes", name, errSize, most)
	}
	return text, err
}

// syncFolder has a folder's names on the disk.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// absent tells whether an error is that of a file that isn't there.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
