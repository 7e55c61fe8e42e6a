package bubblewrap

import (
	"os"

	"github.com/toolguard/toolguard/internal/mounts"
)

// Canary checks in a session of its own that bubblewrap works on this machine, and denies.
func (p Program) Canary() error {
	c := mounts.Canary{
		Root: mounts.Mount{Path: "/", Mode: mounts.ReadOnly, Dir: true}, Tmp: mounts.Mount{Path: "/tmp", Mode: mounts.Hidden, Dir: true},
		MaxPID: 9, Path: p.Path, Explain: explain,
		Args: func(plan *mounts.Plan, inner []string) ([]string, []*os.File, error) {
			args, err := Args(plan, Options{}, inner)
			return args, nil, err
		},
	}
	return c.Run()
}
