package mounts

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Trusted rejects a program that another user could have replaced, and returns the mode of one that none could.
func Trusted(path string) (fs.FileMode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !ok || st.Uid != 0:
		return 0, fmt.Errorf("%s isn't owned by root", path)
	case !mode.IsRegular():
		return 0, fmt.Errorf("%s isn't a regular file", path)
	case mode.Perm()&0o022 != 0:
		return 0, fmt.Errorf("%s can be changed by other users than root (mode %04o)", path, mode.Perm())
	case mode.Perm()&0o111 == 0:
		return 0, fmt.Errorf("%s isn't executable", path)
	}
	return info.Mode(), nil
}
