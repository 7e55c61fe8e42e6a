package ownprogram

import (
	"fmt"
	"os"
	"path/filepath"
)

// folders are searched after toolguard's own folder.
var folders = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// Daemon returns the path of toolguardd, next to toolguard or where it's installed. It isn't trusted more than toolguard's user.
func Daemon() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, dir := range append([]string{filepath.Dir(self)}, folders...) {
		file := filepath.Join(dir, "toolguardd")
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("it needs the program toolguardd, which isn't next to toolguard (%s): install it there", filepath.Dir(self))
}
