package bpffs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Mounted reports whether the BPF file system is mounted.
func Mounted() (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(FS, &st); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: FS, Err: err}
	}
	return st.Type == unix.BPF_FS_MAGIC, nil
}

// Folder makes a folder that only root can access, or checks that an existing one is.
func Folder(path string) error {
	if err := os.Mkdir(path, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Own(path)
}

// Own checks that only root can write to a folder.
func Own(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s isn't a folder of root's alone: remove it", path)
	}
	return nil
}
