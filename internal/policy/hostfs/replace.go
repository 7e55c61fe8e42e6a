package hostfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Replace writes a file under another name first, so that no process reads half of it. Its mode and its owner stay.
func Replace(name string, text []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".toolguard-new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		err = errors.Join(err, f.Chown(int(st.Uid), int(st.Gid)))
	}
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// WriteNew writes a new file, or, by force, replaces one.
func WriteNew(name string, text []byte, force bool) error {
	if _, err := os.Lstat(name); err == nil && force {
		return Replace(name, text)
	} else if err == nil {
		return fmt.Errorf("%s is there already: --force replaces it", name)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
