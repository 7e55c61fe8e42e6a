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

// toolguarddFolders are where it's looked for when it isn't beside toolguard.
var toolguarddFolders = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// OpenProgram opens the program that egress is part of, to be executed and nothing else. As root it runs with what root may, so it must be
// as trustworthy as toolguard itself. What was looked at is what is executed, whatever is put in its place meanwhile.
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

// openProgram opens the first that is there, which must be root's or the owner's, and nobody else's to write.
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
		return -1, fmt.Errorf("%s must be a file of root's, or of toolguard's owner, that nobody else can write", file)
	}
	return -1, fmt.Errorf("%s, which decides about names, isn't beside toolguard (%s): install it there", toolguardd, folders[0])
}
