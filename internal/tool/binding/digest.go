package binding

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// resolveFolder returns a folder's path without symlinks.
func resolveFolder(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("the working directory can't be found: %w", err)
	}
	info, err := os.Stat(real)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s isn't a folder", real)
	}
	return real, err
}

// content is what was read of a file.
type content struct {
	sha256 string
	head   []byte // its first bytes
	size   int64
}

// maxHead is how many bytes of a file's first line the kernel reads (Linux 5.1).
const maxHead = 256

var (
	errNotRegular = errors.New("it isn't a regular file")
	errTooLarge   = fmt.Errorf("the files are larger than %d MiB", maxBytes>>20)
	errUnstable   = errors.New("it changes while it's read")
)

// digest reads the file at a path without symlinks. It neither waits, as a FIFO would make it, nor has an effect on a device.
func digest(path string, most int64) (*content, error) {
	for _, dir := range []string{"/proc/", "/sys/", "/dev/"} {
		if strings.HasPrefix(path, dir) {
			return nil, errNotRegular // the kernel makes its content
		}
	}
	before, err := os.Lstat(path)
	if err != nil {
		return nil, reason(err)
	}
	if !before.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	opened, err := f.Stat()
	switch {
	case err != nil:
		return nil, reason(err)
	case !os.SameFile(before, opened) || !opened.Mode().IsRegular():
		return nil, errUnstable
	case opened.Size() > most:
		return nil, errTooLarge
	}
	c, err := read(f, most)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, reason(err)
	}
	last, err := os.Lstat(path)
	real, errReal := filepath.EvalSymlinks(path)
	if err != nil || errReal != nil || real != path || !os.SameFile(last, opened) || !sameState(opened, after) || c.size != after.Size() {
		return nil, errUnstable
	}
	return c, nil
}

func read(f io.Reader, most int64) (*content, error) {
	h := sha256.New()
	var head bytes.Buffer
	n, err := io.CopyN(&head, f, maxHead)
	if err == nil {
		var rest int64
		h.Write(head.Bytes())
		rest, err = io.Copy(h, io.LimitReader(f, most+1))
		n += rest
	} else if errors.Is(err, io.EOF) {
		h.Write(head.Bytes())
		err = nil
	}
	switch {
	case err != nil:
		return nil, reason(err)
	case n > most:
		return nil, errTooLarge
	}
	return &content{sha256: hex.EncodeToString(h.Sum(nil)), head: head.Bytes(), size: n}, nil
}

// sameState reports whether a file hasn't changed, as far as the file system notes it.
func sameState(a, b os.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// reason is an error without the path.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
