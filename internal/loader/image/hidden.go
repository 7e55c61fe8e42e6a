package image

import (
	"strings"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// Toolguard's folder in /run, and the locks of its state in the kernel.
const (
	RunFolder  = "/run/toolguard"
	LockFolder = RunFolder + "/bpf"
)

// Canary is a folder that every session is denied, whatever its policy: a thread that can't open it is confined.
const Canary = RunFolder + "/canary"

// Hidden reports whether every session is denied a path, whatever its policy: a process that may read a file may lock it, and so block
// toolguard.
func Hidden(path string) bool {
	for _, p := range HiddenFolders {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

var HiddenFolders = []string{bpffs.Root, LockFolder, Canary, RunFolder + "/audit", "/var/lib/toolguard"}
