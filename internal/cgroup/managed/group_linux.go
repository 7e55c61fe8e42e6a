package managed

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup2"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/policy"
)

// Group is the cgroup of a session: its folder, and the library's manager of what is in it. The library knows its path alone, which only
// root can make another folder's.
type Group struct {
	*cgroup.Group
	manager *cgroup2.Manager
}

// New makes the cgroup of a session, with its limits. It fails rather than leave a limit out.
func New(id string, l policy.Limits, f cgroup.Facts) (*Group, error) {
	g := &Group{}
	var err error
	g.Group, err = cgroup.Make(f.Parent(), id, l, f, func(path string) error {
		if g.manager, err = cgroup2.NewManager(f.Mount, strings.TrimPrefix(path, f.Mount), controllers(l)); err != nil {
			return err
		}
		r, err := resources(path, l)
		if err != nil {
			return err
		}
		return g.manager.Update(r)
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Open finds the cgroup of a session that another toolguardd made, by its path.
func Open(path string) (*Group, error) {
	g, err := cgroup.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := cgroup2.Load("/", cgroup2.WithMountpoint(path)) // the library looks below what it takes for the mount
	if err != nil {
		return nil, err
	}
	return &Group{g, m}, nil
}

// Kill ends every process in the cgroup and those that are just being forked. It returns before they have ended.
func (g *Group) Kill() error { return g.manager.Kill() }

// controllers are those that the limits need, with no limit yet: the files to write are there once they're on.
func controllers(l policy.Limits) *cgroup2.Resources {
	r := &cgroup2.Resources{}
	if l.Memory.N != 0 {
		r.Memory = &cgroup2.Memory{}
	}
	if l.Pids.N != 0 {
		r.Pids = &cgroup2.Pids{}
	}
	if l.CPU.N != 0 {
		r.CPU = &cgroup2.CPU{}
	}
	if l.IO.N != 0 {
		r.IO = &cgroup2.IO{}
	}
	return r
}

// resources are the limits as the library takes them.
func resources(path string, l policy.Limits) (*cgroup2.Resources, error) {
	r := controllers(l)
	if n := l.Memory.N; n != 0 {
		r.Memory.Max = new(int64(min(n, math.MaxInt64)))
		if _, err := os.Stat(filepath.Join(path, "memory.swap.max")); err == nil { // no swap accounting: no file
			r.Memory.Swap = new(int64(0))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if n := l.Pids.N; n != 0 {
		r.Pids.Max = int64(min(n, cgroup.MaxPids))
	}
	if n := l.CPU.N; n != 0 {
		quota, period := cgroup.CPUMax(n)
		r.CPU.Max = cgroup2.NewCPUMax(&quota, &period)
	}
	if n := l.IO.N; n != 0 {
		disks, err := cgroup.Disks()
		if err != nil {
			return nil, err
		}
		for _, d := range disks {
			for _, direction := range []cgroup2.IOType{cgroup2.ReadBPS, cgroup2.WriteBPS} {
				r.IO.Max = append(r.IO.Max, cgroup2.Entry{Type: direction, Major: d[0], Minor: d[1], Rate: cgroup.IORate(n)})
			}
		}
	}
	return r, nil
}
