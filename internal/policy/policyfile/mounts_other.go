//go:build !linux

package policyfile

import "github.com/toolguard/toolguard/internal/policy"

// Mounts are none: nothing is mounted twice here.
func (Machine) Mounts() ([]policy.Mount, error) { return nil, nil }
