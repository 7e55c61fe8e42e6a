package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// toolguardd is the program that egress is part of.
const toolguardd = "toolguardd"

// toolguarddFolders are searched after toolguard's own folder.
var toolguarddFolders = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// OpenProgram opens the program of egress for execution. It may run as root, so it must be as trustworthy as toolguard itself. The checked
// file is the one that is executed, even if its path is replaced meanwhile.
func OpenProgram() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return -1, fmt.Errorf("find toolguard's own program: %w", err)
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &own); err != nil {
		return -1, &os.PathError{Op: "stat", Path: self, Err: err}
	}
	return openProgram(append([]string{filepath.Dir(self)}, toolguarddFolders...), own.Uid)
}

// openProgram opens the first existing file. It must be a file of root or of the owner that no other user can write.
func openProgram(folders []string, owner uint32) (int, error) {
	for _, dir := range folders {
		file := filepath.Join(dir, toolguardd)
		fd, err := unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: file, Err: err}
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Uid == 0 || st.Uid == owner) && st.Mode&0o022 == 0 {
			return fd, nil
		}
		_ = unix.Close(fd)
		if err != nil {
			return -1, &os.PathError{Op: "stat", Path: file, Err: err}
		}
		return -1, fmt.Errorf("%s must belong to root or to toolguard's owner, and no other user may be able to write it", file)
	}
	return -1, fmt.Errorf("%s, which decides about names, isn't in toolguard's folder (%s): install it there", toolguardd, folders[0])
}
