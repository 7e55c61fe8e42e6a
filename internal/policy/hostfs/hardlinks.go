package hostfs

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Linked finds every file with several hard links beneath a folder. It skips folders that this process may not read, and
// file systems that the kernel generates.
func (m Machine) Linked(root string) (found []fspath.LinkedFile, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if path == "/proc" || path == "/sys" {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			var id fspath.FileID
			var links uint64
			if id, links, err = m.File(path); links > 1 {
				found = append(found, fspath.LinkedFile{Path: path, File: id})
			}
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return found, err
}
