package loader

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// load loads the maps and programs, attaches them and pins them in dir. If it fails, only dir remains.
func load(dir string) error {
	spec, err := loadKernel()
	if err != nil {
		return err
	}
	if err := removeMissingHooks(spec.Programs); err != nil {
		return err
	}
	addCopies(spec.Programs)
	created, err := createMaps(spec)
	if err != nil {
		return err
	}
	defer created.Close()
	for name, m := range created.Maps {
		if err := m.Pin(filepath.Join(dir, pinName(name))); err != nil {
			return fmt.Errorf("pin the map %s: %w", name, err)
		}
	}
	if err := makeRings(created.Maps["rings"]); err != nil {
		return err
	}
	return attachAll(spec, created.Maps, dir)
}

// readyRings is the number of rings that are made in advance. Adding one to the map takes the kernel 10 to 20 ms.
const readyRings = 4

func makeRings(rings *ebpf.Map) error {
	for i := range uint32(readyRings) {
		r, err := newRing()
		if err != nil {
			return err
		}
		if err := errors.Join(rings.Put(i, r), r.Close()); err != nil {
			return fmt.Errorf("add a ring for events: %w", err)
		}
	}
	return nil
}

// removeMissingHooks removes the programs for optional hooks that this kernel doesn't have.
func removeMissingHooks(programs map[string]*ebpf.ProgramSpec) error {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return fmt.Errorf("read the kernel's BTF: %w", err)
	}
	for name, p := range programs {
		h := hooks[p.AttachTo]
		ok, err := hasHook(kernel, p)
		switch {
		case err != nil:
			return fmt.Errorf("look for the hook %s: %w", p.AttachTo, err)
		case !ok && h.optional == "":
			return fmt.Errorf("this kernel has no hook %s, which mediates %s", p.AttachTo, h.mediates)
		case !ok:
			delete(programs, name)
		}
	}
	return nil
}

// addCopies adds the second copy of each program that is attached twice.
func addCopies(programs map[string]*ebpf.ProgramSpec) {
	for name, p := range maps.Clone(programs) {
		if hooks[p.AttachTo].twice {
			programs[name+"_2"] = p.Copy()
		}
	}
}

func createMaps(spec *ebpf.CollectionSpec) (*ebpf.Collection, error) {
	only := spec.Copy()
	only.Programs = nil
	c, err := ebpf.NewCollection(only)
	if err != nil {
		return nil, fmt.Errorf("create the maps: %w", err)
	}
	return c, nil
}

// attachAll loads the programs in parallel, on all processors: it's nearly all of a start's time.
func attachAll(spec *ebpf.CollectionSpec, maps_ map[string]*ebpf.Map, dir string) error {
	names := slices.Sorted(maps.Keys(spec.Programs))
	size := (len(names) + runtime.NumCPU() - 1) / runtime.NumCPU()
	errs, n := make(chan error), 0
	for share := range slices.Chunk(names, size) {
		n++
		go func() { errs <- attach(spec, share, maps_, dir) }()
	}
	var err error
	for range n {
		err = errors.Join(err, <-errs)
	}
	return err
}

// attach loads and attaches some of the programs.
func attach(spec *ebpf.CollectionSpec, names []string, maps_ map[string]*ebpf.Map, dir string) error {
	only := spec.Copy()
	maps.DeleteFunc(only.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(names, name) })
	loaded, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{MapReplacements: maps_})
	if err != nil {
		return fmt.Errorf("load the programs: %w", err)
	}
	defer loaded.Close()
	for _, name := range names {
		l, err := attachOne(loaded.Programs[name])
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		err = l.Pin(filepath.Join(dir, name)) // the link keeps its program loaded
		if err := errors.Join(err, l.Close()); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	return nil
}

// attachOne attaches a program to its hook, or to the function or tracepoint that it observes.
func attachOne(p *ebpf.Program) (link.Link, error) {
	if p.Type() == ebpf.Tracing {
		return link.AttachTracing(link.TracingOptions{Program: p})
	}
	return link.AttachLSM(link.LSMOptions{Program: p})
}
