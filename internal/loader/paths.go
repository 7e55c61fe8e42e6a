package loader

import (
	"strings"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// Several toolguards share the maps. What they change together they change under locks on bytes of a file, which the kernel
// drops when their holder dies, however it dies: byte 0 is for the maps, and byte 1+N belongs to whoever owns slot N. The
// programs of each version have a file of their own; the one called load is for who loads and unloads them.
const (
	runFolder  = "/run/toolguard"
	lockFolder = runFolder + "/bpf"
)

// Canary is a folder that no session may read, whatever its policy says: who can't open it is guarded.
const Canary = runFolder + "/canary"

// Hidden tells whether a path is one that no session may do anything with, whatever its policy says: whoever may read a file may
// lock it, and so hold toolguard up.
func Hidden(path string) bool {
	for _, p := range hidden {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

var hidden = []string{bpffs.Root, lockFolder, Canary, runFolder + "/audit", "/var/lib/toolguard"}
