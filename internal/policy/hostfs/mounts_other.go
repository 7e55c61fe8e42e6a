//go:build !linux

package hostfs

import "github.com/toolguard/toolguard/internal/policy/fspath"

// Mounts are none: nothing is mounted twice here.
func (Machine) Mounts() ([]fspath.Mount, error) { return nil, nil }
