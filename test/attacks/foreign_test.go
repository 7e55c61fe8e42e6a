//go:build linux && !amd64

package attacks

import "slices"

// foreign reports whether a program can't be compiled for this architecture.
func foreign(name string) bool { return slices.Contains([]string{"int80.c", "x32.c"}, name) }
