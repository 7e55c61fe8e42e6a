package netguard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Egress are the ports on which egress waits: on 127.0.0.1 for what goes to IPv4 addresses, on ::1 for what goes to IPv6
// ones. 0: it doesn't, and what would go there is refused.
type Egress struct{ TCP4, TCP6, UDP4, UDP6 uint16 }

// Begin has the kernel hold the sockets of a cgroup to an image from now on, whose processes have none yet. cgroup is the descriptor of
// its folder; id is never used twice and never 0.
func (s *Session) Begin(id uint64, cgroup int, img *Image, e Egress) error {
	if err := s.write(img); err != nil {
		return fmt.Errorf("write the rules about addresses: %w", err)
	}
	state := netSession{Id: id, Tcp4: network(e.TCP4), Tcp6: network(e.TCP6), Udp4: network(e.UDP4), Udp6: network(e.UDP6)}
	if img.free {
		state.Free = 1
	}
	if err := s.maps[netMapSessions].Put(uint32(0), state); err != nil {
		return fmt.Errorf("write the session: %w", err)
	}
	return s.attach(cgroup)
}

// write puts an image's rules into their map.
func (s *Session) write(img *Image) error {
	keys, values := make([]netRuleKey, len(img.rules)), make([]netVerdict, len(img.rules))
	for i, r := range img.rules {
		keys[i] = ruleKey(r)
		values[i] = netVerdict{Action: uint32(r.does), Layer: int32(r.verdict.Layer), Rule: r.verdict.Rule}
	}
	_, err := s.maps[netMapRules].BatchUpdate(keys, values, nil)
	return err
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
	for _, name := range []string{netProgNetConnect4, netProgNetSockops} {
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
	Suppressed uint64 // refused and not told: too many in one second
	Lost       uint64 // refused and not told: no room
}

// Counts reads them.
func (s *Session) Counts() (Counts, error) {
	var k netSession
	if err := s.maps[netMapSessions].Lookup(uint32(0), &k); err != nil {
		return Counts{}, fmt.Errorf("read what was counted of the network: %w", err)
	}
	return Counts{Sequence: k.Sequence, Denied: k.Denied, Suppressed: k.Suppressed, Lost: k.Lost}, nil
}

// End gives the session up; what is left in its cgroup stays held. What was refused before is told before it returns, and
// counted.
func (s *Session) End() (Counts, error) {
	counts, err := s.Counts()
	err = errors.Join(err, s.finish())
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
