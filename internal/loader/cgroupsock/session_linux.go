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

// Egress are the ports on which egress waits: on 127.0.0.1 for what goes to IPv4 addresses, on ::1 for what goes to IPv6
// ones. 0: it doesn't, and what would go there is denied. So it is as long as none of Sockets, which are descriptors of those
// that wait, is at the port: when egress is gone another one's may be.
type Egress struct {
	TCP4, TCP6, UDP4, UDP6 uint16
	Sockets                []int
}

// Begin has the kernel hold the sockets of a cgroup to an image from now on, whose processes have none yet. cgroup is the descriptor of
// its folder; id is never used twice and never 0.
func (s *Session) Begin(id uint64, cgroup int, img *Image, e Egress) error {
	if err := write(s.image, img); err != nil {
		return err
	}
	s.setFlags(img)
	if err := s.Redirect(e); err != nil {
		return err
	}
	if err := s.isOf(cgroup); err != nil {
		return err
	}
	atomic.StoreUint64(&s.at.Id, id) // last: it's complete then
	return s.attach(cgroup)
}

// isOf keeps the folder of its cgroup.
func (s *Session) isOf(cgroup int) error {
	fd, err := unix.FcntlInt(uintptr(cgroup), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		s.cgroup = os.NewFile(uintptr(fd), "cgroup")
	}
	return os.NewSyscallError("fcntl", err)
}

// Redirect has what is to be decided by egress go there from now on.
func (s *Session) Redirect(e Egress) error {
	for _, fd := range e.Sockets {
		if err := s.maps[netMapEgresses].Put(int32(fd), uint32(1)); err != nil {
			return fmt.Errorf("mark egress's socket: %w", err)
		}
	}
	ports := [4]uint16{network(e.TCP4), network(e.TCP6), network(e.UDP4), network(e.UDP6)}
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&s.at.Tcp4)), *(*uint64)(unsafe.Pointer(&ports)))
	return nil
}

// Reload holds the session to another image, at once. What egress has let it reach by name is forgotten but for what it has by the image's
// generation: it's to decide by the new policy before. Connections stay open until CloseDenied.
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
	atomic.AddUint64(&s.at.Images, 1) // Put has waited for the programs that ran (synchronize_rcu)
	_ = s.former.Close()
	s.former, s.image = former, nil
	s.setFlags(img)
	s.Forget(img.generation)
	return nil
}

// Forget takes back what egress has let the session reach by name, but for what it has by the policy of a generation.
func (s *Session) Forget(but uint32) {
	_, names := s.Descriptors()
	s.forgotten = map[netNameKey]bool{}
	for _, key := range sweep(names, func(n netName) bool { return n.Generation != but }) {
		s.forgotten[key] = true
	}
}

func (s *Session) setFlags(img *Image) {
	for at, is := range map[*uint64]bool{&s.at.Free: img.free, &s.at.Own: img.own} {
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

// SaveState has the kernel keep something for the process that opens the session next. Nobody else reads it, not even egress.
func (s *Session) SaveState(what []byte) error {
	if len(what) > len(s.at.Saved) {
		return fmt.Errorf("%d bytes are too many to save", len(what))
	}
	copy(s.at.Saved[:], what)
	atomic.StoreUint32(&s.at.SavedSize, uint32(len(what)))
	return nil
}

// SavedState is what SaveState was given.
func (s *Session) SavedState() []byte {
	return slices.Clone(s.at.Saved[:min(int(atomic.LoadUint32(&s.at.SavedSize)), len(s.at.Saved))])
}

func ruleKey(r rule) netRuleKey {
	k := netRuleKey{Bits: 32 + uint32(r.at.Bits()), Kind: uint16(r.kind), Port: network(r.port)}
	if r.at.Addr().Is4() {
		a := r.at.Addr().As4()
		k.Addr[0] = binary.NativeEndian.Uint32(a[:])
	} else {
		k.Kind |= uint16(kindIPv6)
		k.Addr = words(r.at.Addr())
	}
	return k
}

// Open finds the programs that another process has put on a cgroup, to hear their events and to serve as egress.
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
			return nil, fmt.Errorf("ask for the programs on the session's cgroup: %w", err)
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
	if err := errors.Join(s.isOf(cgroup), s.mapMemory()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// adopt takes the maps of a program, if it has a name.
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

// Descriptors are those of the maps that egress needs (NewKernel). They stay the session's.
func (s *Session) Descriptors() (originals, names int) {
	return s.maps[netMapOriginals].FD(), s.maps[netMapNames].FD()
}

// Counts are what the kernel counted in a session.
type Counts struct {
	Sequence   uint64 // of the last event
	Denied     uint64 // everything
	Suppressed uint64 // denied and not reported: too many in one second
	Lost       uint64 // denied and not reported: no space
}

// Counts reads them.
func (s *Session) Counts() Counts {
	return Counts{
		Sequence: atomic.LoadUint64(&s.at.Sequence), Denied: atomic.LoadUint64(&s.at.Denied),
		Suppressed: atomic.LoadUint64(&s.at.Suppressed), Lost: atomic.LoadUint64(&s.at.Lost),
	}
}

// End gives the session up; what is left in its cgroup stays held. What was denied before is reported before it returns, and
// counted.
func (s *Session) End() (Counts, error) {
	counts := s.Counts()
	err := errors.Join(s.finish(), s.releaseToPool())
	s.Close()
	return counts, err
}

// Close lets go of what is open here. What is attached stays.
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

// network is a port as it stands in a packet.
func network(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

// words is an address as the programs know it: an IPv4 one in its IPv6 form.
func words(a netip.Addr) (w [4]uint32) {
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
	return netip.AddrPortFrom(netip.AddrFrom16(b).Unmap(), network(port))
}
