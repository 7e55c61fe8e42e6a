package ship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// file appends to a file, which log rotation may rename or remove.
type file struct{ path string }

func openFile(s Sink) (sender, error) { return &file{s.Path}, nil }

func (f *file) send(_ context.Context, records []record) (n int, err error) {
	out, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o640)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	info, err := out.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s isn't a regular file", f.path)
	}
	var text []byte
	if last := make([]byte, 1); info.Size() > 0 { // an incomplete line, after a full disk or a crash, gets a newline
		if _, err := out.ReadAt(last, info.Size()-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' {
			text = append(text, '\n')
		}
	}
	if _, err = out.Write(append(text, lines(records)...)); err == nil {
		err = out.Sync()
	}
	if err == nil && info.Size() == 0 { // it may be new
		err = syncFolder(filepath.Dir(f.path))
	}
	if err != nil {
		return 0, err
	}
	return len(records), nil
}

// syncFolder writes a folder's entries to the disk. It can't if the folder isn't readable.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lines returns the records, one on each line.
func lines(records []record) []byte {
	var b bytes.Buffer
	for _, r := range records {
		b.Write(r.body)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// stream writes to the shipper's standard output.
type stream struct{ to io.Writer }

func openStdout(Sink) (sender, error) { return &stream{os.Stdout}, nil }

func (s *stream) send(_ context.Context, records []record) (int, error) {
	for i, r := range records {
		if _, err := s.to.Write(append(bytes.Clone(r.body), '\n')); err != nil {
			return i, err
		}
	}
	return len(records), nil
}
