package managed

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup2"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/policy"
)

// Group is the cgroup of a session, with the library's manager of it. The library knows only the path, which only root can point to
// another folder.
type Group struct {
	*cgroup.Group
	manager *cgroup2.Manager
}

// New creates the cgroup of a session with its limits. It fails if a limit can't be set.
func New(id string, l policy.Limits, f cgroup.Support) (*Group, error) {
	return NewIn(f.Parent(), id, l, f)
}

// NewIn creates the cgroup beneath another one.
func NewIn(parent, id string, l policy.Limits, f cgroup.Support) (*Group, error) {
	g := &Group{}
	var err error
	g.Group, err = cgroup.NewIn(parent, id, l, f, func(path string) error {
		if g.manager, err = cgroup2.Load(strings.TrimPrefix(path, f.Mount), cgroup2.WithMountpoint(f.Mount)); err != nil {
			return err
		}
		r, err := resources(l)
		if err == nil && parent == f.Parent() { // beneath a cgroup with processes there are no controllers (cgroup-v2.rst)
			err = g.enableControllers(parent, r, f)
		}
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "memory.swap.max")); r.Memory != nil && errors.Is(err, fs.ErrNotExist) {
			r.Memory.Swap = nil // no swap accounting: no file
		}
		return g.manager.Update(r)
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// enableControllers enables the controllers for the limits and the statistics. It doesn't write enabled ones: for that, the kernel
// would wait until removed cgroups are freed (cgroup_lock_and_drain_offline).
func (g *Group) enableControllers(parent string, r *cgroup2.Resources, f cgroup.Support) error {
	text, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	enabled := strings.Fields(string(text))
	for _, c := range r.EnabledControllers() {
		if !slices.Contains(enabled, c) {
			if err := g.manager.ToggleControllers([]string{c}, cgroup2.Enable); err != nil {
				return err
			}
		}
	}
	for _, c := range []string{"memory", "io"} {
		if f.Has(c) && !slices.Contains(enabled, c) {
			_ = g.manager.ToggleControllers([]string{c}, cgroup2.Enable) // otherwise Usage reports the figure as unknown
		}
	}
	return nil
}

// Open opens the cgroup of a session that another toolguardd created.
func Open(path string) (*Group, error) {
	g, err := cgroup.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := cgroup2.Load("/", cgroup2.WithMountpoint(path)) // the library looks beneath the mount point
	if err != nil {
		return nil, err
	}
	return &Group{g, m}, nil
}

// Kill kills every process in the cgroup and those that are being forked. It doesn't wait.
func (g *Group) Kill() error { return g.manager.Kill() }

// resources returns the limits in the library's form.
func resources(l policy.Limits) (*cgroup2.Resources, error) {
	r := &cgroup2.Resources{}
	if n := l.Memory.N; n != 0 {
		r.Memory = &cgroup2.Memory{Max: new(int64(min(n, math.MaxInt64))), Swap: new(int64(0))}
	}
	if n := l.Pids.N; n != 0 {
		r.Pids = &cgroup2.Pids{Max: int64(min(n, cgroup.MaxPids))}
	}
	if n := l.CPU.N; n != 0 {
		quota, period := cgroup.CPUMax(n)
		r.CPU = &cgroup2.CPU{Max: cgroup2.NewCPUMax(&quota, &period)}
	}
	if n := l.IO.N; n != 0 {
		disks, err := cgroup.Disks()
		if err != nil {
			return nil, err
		}
		r.IO = &cgroup2.IO{}
		for _, d := range disks {
			for _, direction := range []cgroup2.IOType{cgroup2.ReadBPS, cgroup2.WriteBPS} {
				r.IO.Max = append(r.IO.Max, cgroup2.Entry{Type: direction, Major: d[0], Minor: d[1], Rate: cgroup.IORate(n)})
			}
		}
	}
	return r, nil
}
