package cgroupsock

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Session is a session in the kernel.
type Session struct {
	maps     map[string]*ebpf.Map
	at       *netSession              // the sessions map's own memory
	image    *ebpf.Map                // the session's first; nil: it was replaced, or another process has it
	programs map[string]*ebpf.Program // empty: another process has attached them
	idle     bool                     // not attached: not yet, or not any more
	events   *events                  // nil: no listener
	cgroup   *os.File                 // its folder
	former   *ebpf.Map                // the image before the last Reload; nil: none, or CloseDenied was called
	revoked  map[netNameKey]bool      // the addresses that were permitted by names and revoked
}

// hooks are where the programs are attached.
var hooks = map[string]ebpf.AttachType{
	netProgNetBind4: ebpf.AttachCGroupInet4Bind, netProgNetBind6: ebpf.AttachCGroupInet6Bind,
	netProgNetConnect4: ebpf.AttachCGroupInet4Connect, netProgNetConnect6: ebpf.AttachCGroupInet6Connect,
	netProgNetCreate: ebpf.AttachCGroupInetSockCreate,
	netProgNetEgress: ebpf.AttachCGroupInetEgress, netProgNetIngress: ebpf.AttachCGroupInetIngress,
	netProgNetOption:    ebpf.AttachCGroupSetsockopt,
	netProgNetPeername4: ebpf.AttachCgroupInet4GetPeername, netProgNetPeername6: ebpf.AttachCgroupInet6GetPeername,
	netProgNetRecvmsg4: ebpf.AttachCGroupUDP4Recvmsg, netProgNetRecvmsg6: ebpf.AttachCGroupUDP6Recvmsg,
	netProgNetSendmsg4: ebpf.AttachCGroupUDP4Sendmsg, netProgNetSendmsg6: ebpf.AttachCGroupUDP6Sendmsg,
}

// Load returns the programs and maps for a session, from the pool or newly loaded. They aren't attached yet.
func Load() (*Session, error) {
	if s := acquire(); s != nil {
		return s, nil
	}
	return loadNew()
}

func loadNew() (_ *Session, err error) {
	spec, err := loadNet()
	if err != nil {
		return nil, err
	}
	s := &Session{programs: map[string]*ebpf.Program{}, idle: true}
	only := spec.Copy()
	only.Programs = nil
	created, err := ebpf.NewCollection(only)
	if err != nil {
		return nil, fmt.Errorf("create the maps for the network: %w", err)
	}
	s.maps = created.Maps
	placed := make(chan error, 1)
	go func() { placed <- s.newImage(spec) }() // in parallel, as the kernel waits for running programs
	err = s.loadPrograms(spec)
	if err != nil {
		err = fmt.Errorf("load the programs for the network: %w", err)
	}
	if err = errors.Join(err, <-placed, s.mapMemory()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newImage sets an empty image.
func (s *Session) newImage(spec *ebpf.CollectionSpec) (err error) {
	if s.image, err = ebpf.NewMap(spec.Maps[netMapImages].InnerMap); err == nil {
		err = s.maps[netMapImages].Put(uint32(0), s.image)
	}
	if err != nil {
		return fmt.Errorf("make the map of rules about addresses: %w", err)
	}
	return nil
}

// mapMemory maps the session's state in the kernel.
func (s *Session) mapMemory() error {
	mem, err := unix.MmapPtr(s.maps[netMapSessions].FD(), 0, nil, unsafe.Sizeof(*s.at), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the memory of the network's session: %w", err)
	}
	s.at = (*netSession)(mem)
	return nil
}

// loadPrograms loads the programs in parallel, on all processors.
func (s *Session) loadPrograms(spec *ebpf.CollectionSpec) error {
	type share struct {
		loaded map[string]*ebpf.Program
		err    error
	}
	names := slices.Sorted(maps.Keys(spec.Programs))
	size := (len(names) + runtime.NumCPU() - 1) / runtime.NumCPU()
	shares, n := make(chan share), 0
	for part := range slices.Chunk(names, size) {
		n++
		go func() {
			only := spec.Copy()
			maps.DeleteFunc(only.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(part, name) })
			c, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{MapReplacements: s.maps})
			if err != nil {
				shares <- share{err: err}
				return
			}
			loaded := c.Programs
			c.Programs = nil
			c.Close()
			shares <- share{loaded: loaded}
		}()
	}
	var err error
	for range n {
		part := <-shares
		maps.Copy(s.programs, part.loaded)
		err = errors.Join(err, part.err)
	}
	return err
}

// attach attaches the programs to a cgroup, for its lifetime, without a link or pin. Programs of other software may be attached to it, too.
func (s *Session) attach(cgroup int) error {
	s.idle = false
	var done []string
	for _, name := range slices.Sorted(maps.Keys(s.programs)) {
		err := link.RawAttachProgram(link.RawAttachProgramOptions{
			Target: cgroup, Program: s.programs[name], Attach: hooks[name], Flags: unix.BPF_F_ALLOW_MULTI,
		})
		if err != nil {
			for _, name := range done {
				_ = link.RawDetachProgram(link.RawDetachProgramOptions{
					Target: cgroup, Program: s.programs[name], Attach: hooks[name],
				})
			}
			return fmt.Errorf("attach %s to the session's cgroup: %w", name, err)
		}
		done = append(done, name)
	}
	return nil
}

func (s *Session) closePrograms() {
	for _, p := range s.programs {
		p.Close()
	}
	s.programs = nil
}
