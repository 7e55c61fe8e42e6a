package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// versionFolder is the folder of this version. It's renamed into place when it's complete. The programs of several versions can be attached at
// the same time; each confines only its own sessions.
const versionFolder = bpffs.Root + "/" + version

// Kernel is toolguard's state in the kernel.
type Kernel struct {
	lock     *lock
	sessions []kernelSession // the map's own memory
	starting *uint32         // the programs' variable
	images   *ebpf.Map
	pending  *ebpf.Map
	labels   *ebpf.Map
	makers   *ebpf.Map
	rings    *ebpf.Map

	mapped [][]byte
}

// Open opens the pinned programs and maps. If there are none, it loads, attaches and pins them first. It calls note, which may be nil, with
// each other change to the machine.
func Open(note func(string)) (*Kernel, error) {
	k, err := openPinned()
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	err = install(note)
	recordFailure(err)
	if err != nil {
		return nil, err
	}
	return openPinned()
}

// openPinned opens the pinned maps; fs.ErrNotExist if there are none.
func openPinned() (_ *Kernel, err error) {
	k := &Kernel{}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	for name, m := range map[string]**ebpf.Map{"images": &k.images, "pending": &k.pending, "labels": &k.labels, "makers": &k.makers, "rings": &k.rings} {
		if *m, err = openPin(name); err != nil {
			return nil, err
		}
	}
	mem, err := k.mapPin("sessions")
	if err != nil {
		return nil, err
	}
	k.sessions = unsafe.Slice((*kernelSession)(unsafe.Pointer(&mem[0])), len(mem)/int(unsafe.Sizeof(kernelSession{})))
	if mem, err = k.mapPin("bss"); err != nil {
		return nil, err
	}
	k.starting = (*uint32)(unsafe.Pointer(&mem[0])) // the first of its variables
	k.lock, err = openLock(version)
	return k, err
}

func openPin(name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(versionFolder, name), nil)
	if err != nil {
		return nil, fmt.Errorf("open the map %s: %w", name, err)
	}
	return m, nil
}

// mapPin maps an array's memory.
func (k *Kernel) mapPin(name string) ([]byte, error) {
	m, err := openPin(name)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	mem, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries()*m.ValueSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory of %s: %w", name, err)
	}
	k.mapped = append(k.mapped, mem)
	return mem, nil
}

// Close closes all descriptors. Sessions stay as they are.
func (k *Kernel) Close() {
	for _, m := range []*ebpf.Map{k.images, k.pending, k.labels, k.makers, k.rings} {
		if m != nil {
			_ = m.Close()
		}
	}
	for _, mem := range k.mapped {
		_ = unix.Munmap(mem)
	}
	if k.lock != nil {
		k.lock.close()
	}
}

// install loads, attaches and pins this version's programs, unless another process has just done so. It removes the programs of other
// versions that confine no process.
func install(note func(string)) error {
	if note == nil {
		note = func(string) {}
	}
	l, err := openLock("load")
	if err != nil {
		return err
	}
	defer l.close()
	return l.with(func() error {
		if _, err := os.Stat(versionFolder); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := unmetRequirement(); err != nil {
			return err
		}
		mounted, err := mountBPF()
		if err != nil {
			return err
		}
		if mounted {
			note("a BPF file system was mounted on " + bpffs.FS)
		}
		if err := bpffs.Folder(bpffs.Root); err != nil {
			return err
		}
		if err := removeStale(note); err != nil {
			return err
		}
		return installIn(versionFolder + partial)
	})
}

// installIn loads into a folder that gets its final name when it's complete.
func installIn(fresh string) error {
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := load(fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return os.Rename(fresh, versionFolder)
}
