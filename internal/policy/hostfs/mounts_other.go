//go:build !linux

package hostfs

import "github.com/toolguard/toolguard/internal/policy/fspath"

// Mounts returns none: no other system mounts a file system twice.
func (Machine) Mounts() ([]fspath.Mount, error) { return nil, nil }
