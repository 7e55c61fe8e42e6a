package cgroupsock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Egress has the ports on which egress listens: on 127.0.0.1 for IPv4 destinations, on ::1 for IPv6 ones. 0: it doesn't, and its
// destinations are denied. They are denied also unless one of Sockets, the descriptors of the listeners, is bound to the port: when
// egress has ended, another process may bind it.
type Egress struct {
	TCP4, TCP6, UDP4, UDP6 uint16
	Sockets                []int
}

// Begin enforces an image on the sockets of a cgroup, whose processes must have none yet. cgroup is the descriptor of its folder. id is
// never used twice and never 0.
func (s *Session) Begin(id uint64, cgroup int, img *Image, e Egress) error {
	if err := write(s.image, img); err != nil {
		return err
	}
	s.setFlags(img)
	if err := s.Redirect(e); err != nil {
		return err
	}
	if err := s.setCgroup(cgroup); err != nil {
		return err
	}
	atomic.StoreUint64(&s.at.Id, id) // last, as it makes the session complete
	return s.attach(cgroup)
}

// setCgroup duplicates the descriptor of the cgroup's folder.
func (s *Session) setCgroup(cgroup int) error {
	fd, err := unix.FcntlInt(uintptr(cgroup), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		s.cgroup = os.NewFile(uintptr(fd), "cgroup")
	}
	return os.NewSyscallError("fcntl", err)
}

// Redirect redirects the connections that egress decides about from now on.
func (s *Session) Redirect(e Egress) error {
	for _, fd := range e.Sockets {
		if err := s.maps[netMapEgresses].Put(int32(fd), uint32(1)); err != nil {
			return fmt.Errorf("mark egress's socket: %w", err)
		}
	}
	ports := [4]uint16{networkOrder(e.TCP4), networkOrder(e.TCP6), networkOrder(e.UDP4), networkOrder(e.UDP6)}
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&s.at.Tcp4)), *(*uint64)(unsafe.Pointer(&ports)))
	return nil
}

// Reload replaces the session's image with one write. It revokes the addresses that egress permitted by name, except those of the image's
// generation, which egress decided about by the new policy before. Connections stay open until CloseDenied.
func (s *Session) Reload(img *Image) error {
	spec, err := loadNet()
	if err != nil {
		return err
	}
	m, err := ebpf.NewMap(spec.Maps[netMapImages].InnerMap)
	if err != nil {
		return fmt.Errorf("make the map of rules about addresses: %w", err)
	}
	defer m.Close()
	if err := write(m, img); err != nil {
		return err
	}
	former := s.image
	if former == nil {
		if err := s.maps[netMapImages].Lookup(uint32(0), &former); err != nil {
			return fmt.Errorf("open the rules about addresses: %w", err)
		}
	}
	if err := s.maps[netMapImages].Put(uint32(0), m); err != nil {
		return fmt.Errorf("exchange the rules about addresses: %w", err)
	}
	atomic.AddUint64(&s.at.Images, 1) // Put has waited for running programs (synchronize_rcu)
	_ = s.former.Close()
	s.former, s.image = former, nil
	s.setFlags(img)
	s.RevokeNames(img.generation)
	return nil
}

// RevokeNames revokes the addresses that egress permitted by name, except those of a generation.
func (s *Session) RevokeNames(but uint32) {
	_, names := s.Descriptors()
	s.revoked = map[netNameKey]bool{}
	for _, key := range sweep(names, func(n netName) bool { return n.Generation != but }) {
		s.revoked[key] = true
	}
}

func (s *Session) setFlags(img *Image) {
	for at, is := range map[*uint64]bool{&s.at.Free: img.unrestricted, &s.at.Own: img.own} {
		value := uint64(0)
		if is {
			value = 1
		}
		atomic.StoreUint64(at, value)
	}
}

// write puts an image's rules into a map.
func write(m *ebpf.Map, img *Image) error {
	keys, values := make([]netRuleKey, len(img.rules)), make([]netVerdict, len(img.rules))
	for i, r := range img.rules {
		keys[i] = ruleKey(r)
		values[i] = netVerdict{Action: uint32(r.does), Layer: int32(r.verdict.Layer), Rule: r.verdict.Rule, Generation: img.generation}
	}
	if _, err := m.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("write the rules about addresses: %w", err)
	}
	return nil
}

// SaveState stores state in the kernel for the process that opens the session next. No other process reads it, not even egress.
func (s *Session) SaveState(what []byte) error {
	if len(what) > len(s.at.Saved) {
		return fmt.Errorf("%d bytes are too many to save", len(what))
	}
	copy(s.at.Saved[:], what)
	atomic.StoreUint32(&s.at.SavedSize, uint32(len(what)))
	return nil
}

// SavedState returns the state that SaveState stored.
func (s *Session) SavedState() []byte {
	return slices.Clone(s.at.Saved[:min(int(atomic.LoadUint32(&s.at.SavedSize)), len(s.at.Saved))])
}

func ruleKey(r rule) netRuleKey {
	k := netRuleKey{Bits: 32 + uint32(r.at.Bits()), Kind: uint16(r.kind), Port: networkOrder(r.port)}
	if r.at.Addr().Is4() {
		a := r.at.Addr().As4()
		k.Addr[0] = binary.NativeEndian.Uint32(a[:])
	} else {
		k.Kind |= uint16(kindIPv6)
		k.Addr = addrWords(r.at.Addr())
	}
	return k
}

// Open opens the session whose programs another process has attached to a cgroup, to listen to its events and to replace its egress.
func Open(cgroup int) (*Session, error) {
	spec, err := loadNet()
	if err != nil {
		return nil, err
	}
	s := &Session{maps: map[string]*ebpf.Map{}}
	for _, name := range []string{netProgNetConnect4, netProgNetEgress} {
		attached, err := link.QueryPrograms(link.QueryOptions{Target: cgroup, Attach: spec.Programs[name].AttachType})
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("list the programs on the session's cgroup: %w", err)
		}
		for _, a := range attached.Programs {
			if err := s.adopt(a.ID, name, spec); err != nil {
				s.Close()
				return nil, err
			}
		}
	}
	if len(s.maps) != len(spec.Maps) {
		s.Close()
		return nil, errors.New("no programs of this version of toolguard are on the session's cgroup")
	}
	if err := errors.Join(s.setCgroup(cgroup), s.mapMemory()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// adopt opens the maps of a program, if the program has a name.
func (s *Session) adopt(id ebpf.ProgramID, name string, spec *ebpf.CollectionSpec) error {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil || info.Name != name {
		return err
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return err
		}
		i, err := m.Info()
		if err != nil || spec.Maps[i.Name] == nil || spec.Maps[i.Name].Compatible(m) != nil || s.maps[i.Name] != nil {
			_ = m.Close()
			continue
		}
		s.maps[i.Name] = m
	}
	return nil
}

// Descriptors returns the descriptors of the maps that egress needs (NewKernel). The session closes them.
func (s *Session) Descriptors() (originals, names int) {
	return s.maps[netMapOriginals].FD(), s.maps[netMapNames].FD()
}

// Counts are the kernel's counts of a session.
type Counts struct {
	Sequence   uint64 // of the last event
	Denied     uint64 // all denials
	Suppressed uint64 // denied and not reported: too many in one second
	Lost       uint64 // denied and not reported: no space
}

// Counts reads the kernel's counts.
func (s *Session) Counts() Counts {
	return Counts{
		Sequence: atomic.LoadUint64(&s.at.Sequence), Denied: atomic.LoadUint64(&s.at.Denied),
		Suppressed: atomic.LoadUint64(&s.at.Suppressed), Lost: atomic.LoadUint64(&s.at.Lost),
	}
}

// End releases the session. Processes that remain in its cgroup stay confined. All earlier denials are reported and counted when it
// returns.
func (s *Session) End() (Counts, error) {
	counts := s.Counts()
	err := errors.Join(s.finish(), s.releaseToPool())
	s.Close()
	return counts, err
}

// Close closes the descriptors. The programs stay attached.
func (s *Session) Close() {
	s.closePrograms()
	for _, m := range s.maps {
		_ = m.Close()
	}
	s.maps = nil
	_ = s.former.Close() // nil, too
	_ = s.cgroup.Close() // nil, too
	if s.image != nil {
		_ = s.image.Close()
	}
	if s.at != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(s.at), unsafe.Sizeof(*s.at))
		s.at = nil
	}
}

// networkOrder is a port in network order.
func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

// addrWords is an address in the programs' form: an IPv4 one is IPv4-mapped.
func addrWords(a netip.Addr) (w [4]uint32) {
	b := a.As16()
	for i := range w {
		w[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return w
}

func addrPort(w [4]uint32, port uint16) netip.AddrPort {
	var b [16]byte
	for i := range w {
		binary.NativeEndian.PutUint32(b[4*i:], w[i])
	}
	return netip.AddrPortFrom(netip.AddrFrom16(b).Unmap(), networkOrder(port))
}
