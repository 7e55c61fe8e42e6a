package image

import (
	"slices"
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
	return slices.ContainsFunc(HiddenFolders, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

var HiddenFolders = []string{bpffs.Root, LockFolder, Canary, RunFolder + "/audit", "/var/lib/toolguard"}
