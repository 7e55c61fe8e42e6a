package image

import (
	"strings"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// What toolguard has in /run, and the locks of what is in the kernel.
const (
	RunFolder  = "/run/toolguard"
	LockFolder = RunFolder + "/bpf"
)

// Canary is a folder that no session may read, whatever its policy says: who can't open it is confined.
const Canary = RunFolder + "/canary"

// Hidden reports whether a path is one that no session may do anything with, whatever its policy says: whoever may read a file may
// lock it, and so hold toolguard up.
func Hidden(path string) bool {
	for _, p := range HiddenFolders {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

var HiddenFolders = []string{bpffs.Root, LockFolder, Canary, RunFolder + "/audit", "/var/lib/toolguard"}
