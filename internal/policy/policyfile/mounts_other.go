//go:build !linux

package policyfile

import "github.com/toolguard/toolguard/internal/policy/fspath"

// Mounts are none: nothing is mounted twice here.
func (Machine) Mounts() ([]fspath.Mount, error) { return nil, nil }
