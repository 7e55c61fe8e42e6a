package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// Unload removes the programs of every version from the kernel, unless they confine a process. It's for removing toolguard.
func Unload() error {
	if _, err := os.Stat(bpffs.Root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l, err := openLock("load")
	if err != nil {
		return err
	}
	defer l.close()
	return l.with(func() error {
		entries, err := os.ReadDir(bpffs.Root)
		if err != nil {
			return err
		}
		left := 0
		for _, e := range entries {
			dir := filepath.Join(bpffs.Root, e.Name())
			if dir == bpffs.Net || strings.HasSuffix(e.Name(), partial) { // these confine no process
				continue
			}
			n, err := remove(dir)
			if err != nil {
				return err
			}
			left += n
		}
		if left > 0 {
			return fmt.Errorf("%d sessions still run", left)
		}
		if err := discard(bpffs.Net); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.RemoveAll(bpffs.Root)
	})
}
