//go:build !linux

package launch

import (
	"errors"
	"io/fs"
	"os"
)

// accessible looks at the permissions alone: nothing is executed here.
func accessible(file string) error {
	info, err := os.Stat(file)
	if err == nil && info.Mode()&0o111 == 0 {
		err = &fs.PathError{Op: "exec", Path: file, Err: fs.ErrPermission}
	}
	return err
}

// removeAll is enough here, where no command is ever started.
var removeAll = os.RemoveAll

// HasChildren doesn't matter here.
func HasChildren() bool { return false }

// Reexec is never called here.
func Reexec() (int, error) { return 0, errors.ErrUnsupported }

// CheckCapacity doesn't matter here.
func CheckCapacity() error { return nil }

// Preflight is empty here, where no command is ever started.
type Preflight struct{}

// StartPreflight starts nothing.
func StartPreflight(bool) *Preflight { return &Preflight{} }

// Close does nothing.
func (*Preflight) Close() error { return nil }
