//go:build !linux

package launch

import (
	"errors"
	"io/fs"
	"os"
)

// accessible checks the permission bits alone: nothing is executed on this platform.
func accessible(file string) error {
	info, err := os.Stat(file)
	if err == nil && info.Mode()&0o111 == 0 {
		err = &fs.PathError{Op: "exec", Path: file, Err: fs.ErrPermission}
	}
	return err
}

// No command is started on this platform.
var removeAll = os.RemoveAll

// HasChildren returns false on this platform.
func HasChildren() bool { return false }

// Reexec fails on this platform.
func Reexec() (int, error) { return 0, errors.ErrUnsupported }

// CheckCapacity does nothing on this platform.
func CheckCapacity() error { return nil }

// Preflight is empty on this platform.
type Preflight struct{}

// StartPreflight starts nothing.
func StartPreflight(bool) *Preflight { return &Preflight{} }

// Close does nothing.
func (*Preflight) Close() error { return nil }

// StageFlag and RunStage are for wrappers, which this platform doesn't have.
const StageFlag = "--stage"

// RunStage fails on this platform.
func RunStage([]string) int { return 1 }
