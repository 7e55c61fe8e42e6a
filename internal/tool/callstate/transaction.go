//go:build unix

package callstate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The bounds of a file.
const (
	maxSize = 4 << 20          // bytes
	maxWait = 10 * time.Second // for the lock
)

// kind is a kind of file with a content of the type T.
type kind[T any] struct {
	what           string // in errors
	damaged, large string // what to do about a file that can't be read, or has become too large

	// parse reads the content of a file; nil: there is none.
	parse func(text []byte) (*T, error)
}

// read returns the content of a file. It needs no lock: a file is replaced as a whole.
func (k *kind[T]) read(path string) (content *T, err error) {
	err = k.in(path, func(dir *os.File, name string) (err error) {
		content, err = k.load(dir, name)
		return err
	})
	return content, err
}

// in calls do with the folder of a file, and names the kind of file in an error.
func (k *kind[T]) in(path string, do func(dir *os.File, name string) error) error {
	dir, err := openFolder(filepath.Dir(path))
	if err == nil {
		err = errors.Join(do(dir, filepath.Base(path)), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", k.what, err)
	}
	return nil
}

func (k *kind[T]) load(dir *os.File, name string) (*T, error) {
	text, err := readFile(dir, name, k.large)
	if err != nil {
		return nil, err
	}
	content, err := k.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%s)", filepath.Join(dir.Name(), name), err, k.damaged)
	}
	return content, nil
}

// change is one transaction on a file. If do hasn't changed the content, or returns an error, which is then that of change, the file stays as it
// is. Without an error, what has changed is on the disk.
func (k *kind[T]) change(path string, do func(*T) (changed bool, err error)) error {
	var own error
	err := k.in(path, func(dir *os.File, name string) error {
		if _, err := readFile(dir, name, k.large); err != nil { // before a lock is made next to what is no state
			return err
		}
		lock, err := lockFile(dir, name+".lock")
		if err != nil {
			return err
		}
		defer lock.Close()
		content, err := k.load(dir, name)
		if err != nil {
			return err
		}
		var changed bool
		if changed, own = do(content); own != nil || !changed {
			return nil
		}
		return k.store(dir, name, content)
	})
	return cmp.Or(own, err)
}

func (k *kind[T]) store(dir *os.File, name string, content *T) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		return fmt.Errorf("%s would be larger than %d KiB: %s", filepath.Join(dir.Name(), name), maxSize>>10, k.large)
	}
	return replaceFile(dir, name, append(text, '\n'))
}

// decode reads JSON that has these fields, and nothing after its end.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it's damaged, or something else: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it's damaged: there is more after its end")
	}
	return nil
}
