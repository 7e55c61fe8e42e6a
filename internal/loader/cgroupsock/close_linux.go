package cgroupsock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Of sock_diag(7): uapi/linux/inet_diag.h and sock_diag.h.
const (
	requestBytecode = 1 // INET_DIAG_REQ_BYTECODE
	requestStorages = 2 // INET_DIAG_REQ_SK_BPF_STORAGES
	requestMap      = 1 // SK_DIAG_BPF_STORAGE_REQ_MAP_FD
	jump            = 1
	ofCgroup        = 13
	saidStorages    = 20 // INET_DIAG_SK_BPF_STORAGES
	saidStorage     = 1  // SK_DIAG_BPF_STORAGE
	saidValue       = 3  // SK_DIAG_BPF_STORAGE_MAP_VALUE
	diagTimeout     = 10 // seconds

	allStates   = 0xfff
	established = 1
	listens     = 10
)

// diagID says which socket (struct inet_diag_sockid).
type diagID struct {
	From, To       [2]byte
	Source, Target [16]byte
	Device         uint32
	Cookie         uint64
}

// diagRequest is struct inet_diag_req_v2.
type diagRequest struct {
	Family, Protocol, Extensions, _ uint8
	States                          uint32
	ID                              diagID
}

// diagSocket is struct inet_diag_msg.
type diagSocket struct {
	Family, State, Timer, Retransmits      uint8
	ID                                     diagID
	Expires, Received, Queued, User, Inode uint32
}

// held is a socket of a session.
type held struct {
	diagSocket
	protocol uint8
	peer     netPeer // of TCP; the zero value: nothing is noted down
}

// Diag asks the kernel for the sockets of a network namespace, and closes some.
type Diag struct {
	sockets map[int]*nl.SocketHandle
}

// OpenDiag is of the network namespace that this thread is in. An error: the kernel can't close sockets for others.
func OpenDiag() (*Diag, error) {
	s, err := nl.Subscribe(unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a socket of sock_diag: %w", err)
	}
	_ = s.SetReceiveTimeout(&unix.Timeval{Sec: diagTimeout})
	d := &Diag{sockets: map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: s}}}
	for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		none := held{diagSocket: diagSocket{Family: unix.AF_INET}, protocol: protocol}
		if _, err := d.close(&none); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// Close closes no socket of a session.
func (d *Diag) Close() { d.sockets[unix.NETLINK_INET_DIAG].Close() }

func (d *Diag) request(kind, flags int, data any, more ...nl.NetlinkRequestData) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = d.sockets
	b, _ := binary.Append(nil, binary.NativeEndian, data)
	r.AddData(raw(b))
	for _, m := range more {
		r.AddData(m)
	}
	return r
}

// raw is part of a request as it is.
type raw []byte

func (r raw) Len() int          { return len(r) }
func (r raw) Serialize() []byte { return r }

// close closes a socket (SOCK_DESTROY): those who use it get ECONNABORTED, and the other end of TCP a reset. It isn't found if it has closed, or if
// the kernel finds another one at its address (SO_REUSEPORT), which stays open.
func (d *Diag) close(k *held) (found bool, err error) {
	_, err = d.request(nl.SOCK_DESTROY, unix.NLM_F_ACK, diagRequest{Family: k.Family, Protocol: k.protocol, ID: k.ID}).Execute(unix.NETLINK_INET_DIAG, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, errors.New("the kernel closes no sockets for others: it takes one with CONFIG_INET_DIAG_DESTROY")
	case err != nil:
		return false, fmt.Errorf("close a socket by sock_diag: %w", err)
	}
	return true, nil
}

// madeIn selects the sockets that were made in one of some cgroups. The kernel compares one cgroup with the socket's at a time
// (INET_DIAG_BC_CGROUP_COND, Linux 5.8), and takes a socket for which it comes to the end, and none for which it would go beyond.
func madeIn(cgroups []uint64) (filter []byte) {
	step := func(code, yes uint8, no int) { // struct inet_diag_bc_op: by how many bytes it goes on
		filter = binary.NativeEndian.AppendUint16(append(filter, code, yes), uint16(no))
	}
	for i, cgroup := range cgroups {
		step(ofCgroup, 12, 16)
		filter = binary.NativeEndian.AppendUint64(filter, cgroup)
		if others := len(cgroups) - 1 - i; others > 0 {
			step(jump, 4, 16*others)
		}
	}
	return filter
}

// list is all TCP and UDP sockets that were made in one of some cgroups, with what is noted down in a map for each.
func (d *Diag) list(cgroups []uint64, peers int) (all []*held, err error) {
	filter := madeIn(cgroups)
	storages := nl.NewRtAttr(requestStorages, nil)
	storages.AddRtAttr(requestMap, binary.NativeEndian.AppendUint32(nil, uint32(peers)))
	for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			asks := diagRequest{Family: family, Protocol: protocol, States: allStates}
			said, err := d.request(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, asks, nl.NewRtAttr(requestBytecode, filter), storages).
				Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
			if err != nil {
				return nil, fmt.Errorf("list the session's sockets by sock_diag: %w", err)
			}
			for _, m := range said {
				k := &held{protocol: protocol}
				n, err := binary.Decode(m, binary.NativeEndian, &k.diagSocket)
				if err == nil {
					err = k.readPeer(m[n:])
				}
				if err != nil {
					return nil, fmt.Errorf("read what sock_diag says of a socket: %w", err)
				}
				all = append(all, k)
			}
		}
	}
	return all, nil
}

func (k *held) readPeer(attributes []byte) error {
	for _, kind := range []uint16{saidStorages, saidStorage, saidValue} {
		found, err := attribute(attributes, kind)
		if err != nil || found == nil {
			return err
		}
		attributes = found
	}
	if len(attributes) != int(unsafe.Sizeof(k.peer)) {
		return fmt.Errorf("%d bytes are noted down for it", len(attributes))
	}
	k.peer = *(*netPeer)(unsafe.Pointer(unsafe.SliceData(append([]byte(nil), attributes...))))
	return nil
}

func attribute(b []byte, kind uint16) ([]byte, error) {
	all, err := nl.ParseRouteAttr(b)
	for _, a := range all {
		if a.Attr.Type&^uint16(unix.NLA_F_NESTED) == kind {
			return a.Value, nil
		}
	}
	return nil, err
}

// ends are where a socket is, and what it's connected to.
func (k *held) ends() (here, there netip.AddrPort) {
	at := func(addr [16]byte, port [2]byte) netip.AddrPort {
		a := netip.AddrFrom16(addr)
		if k.Family == unix.AF_INET {
			a = netip.AddrFrom4([4]byte(addr[:4]))
		}
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port[:]))
	}
	return at(k.ID.Source, k.ID.From), at(k.ID.Target, k.ID.To)
}

// CloseDenied closes the connections of the session that the rules in force don't grant, on either side; and of what waits for some,
// and of UDP sockets that are connected, those that the rules before the last Reload let be. It says how many. What egress decides about
// is left to it.
func (s *Session) CloseDenied(d *Diag) (closed int, err error) {
	former := s.former
	s.former = nil
	defer former.Close() // nil, too
	var now *ebpf.Map
	if err := s.maps[netMapImages].Lookup(uint32(0), &now); err != nil {
		return 0, fmt.Errorf("open the rules about addresses: %w", err)
	}
	defer now.Close()
	return s.closeSome(d, s.folder(), func(k *held) bool {
		connects := k.protocol == unix.IPPROTO_TCP && k.State != listens
		return !s.lets(now, k) && (connects || former != nil && s.lets(former, k) || s.forgotten[k.name()])
	})
}

// HasSockets says whether the session has ever had a socket.
func (s *Session) HasSockets() bool { return atomic.LoadUint64(&s.at.Sockets) > 0 }

// CloseOpen closes all sockets of the session that a process has open, and returns how many. A socket that no process has any more only sends
// what it has still to send.
func (s *Session) CloseOpen(d *Diag) (closed int, err error) { return s.CloseOpenIn(d, s.folder()) }

// CloseOpenIn closes those that were made in a cgroup beneath the session's, or beneath that.
func (s *Session) CloseOpenIn(d *Diag, cgroup string) (closed int, err error) {
	return s.closeSome(d, cgroup, func(k *held) bool { return k.Inode != 0 })
}

// folder is the session's cgroup's.
func (s *Session) folder() string { return fmt.Sprintf("/proc/self/fd/%d/", s.cgroup.Fd()) }

// cgroups are the numbers of a cgroup and of all beneath it, where sessions within the session are: those of their folders.
func cgroups(folder string) (all []uint64, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				all = append(all, info.Sys().(*syscall.Stat_t).Ino)
			}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) { // removed meanwhile
			return nil
		}
		return err
	})
	return all, err
}

// rounds bounds how often sockets are closed at whose address the kernel found another one, which it finds no more when that is closed.
const rounds = 64

func (s *Session) closeSome(d *Diag, cgroup string, which func(*held) bool) (closed int, err error) {
	made, err := cgroups(cgroup)
	if err != nil {
		return 0, fmt.Errorf("find the cgroups of the session: %w", err)
	}
	done := map[uint64]bool{} // by cookie
	for range rounds {
		all, err := d.list(made, s.maps[netMapPeers].FD())
		missed := false
		for _, k := range all {
			if done[k.ID.Cookie] || !which(k) {
				continue
			}
			found, e := d.close(k)
			if found {
				done[k.ID.Cookie] = true
			}
			missed = missed || !found
			err = errors.Join(err, e)
		}
		if !missed || err != nil {
			return len(done), err
		}
	}
	return len(done), errors.New("some of its sockets share an address (SO_REUSEPORT), by which the kernel finds others")
}

// name is what is permitted where the socket may be connected to because of a name.
func (k *held) name() netNameKey {
	_, there := k.ends()
	return nameKey(k.protocol == unix.IPPROTO_UDP, there)
}

// lets says whether rules let a socket be as it is.
func (s *Session) lets(rules *ebpf.Map, k *held) bool {
	here, there := k.ends()
	udp := k.protocol == unix.IPPROTO_UDP
	switch {
	case !udp && (k.State == listens || k.peer.Waits != 0):
		return verdictOf(rules, kindListen, here).Action == uint32(direct)
	case !udp && k.peer.Own != 0 && atomic.LoadUint64(&s.at.Own) != 0:
		return true
	case udp && k.State != established: // each datagram is decided on
		return true
	case s.isEgress(udp, there) && (udp || k.peer.Original.To.Port != 0):
		return true
	}
	of := kind(0)
	if udp {
		of = kindUDP
	}
	v := verdictOf(rules, of, there)
	if v.Action == uint32(direct) || v.Rule >= 0 {
		return v.Action == uint32(direct)
	}
	return s.maps[netMapNames].Lookup(k.name(), &netName{}) == nil
}

// verdictOf is what rules say about an address, as decide in bpf/sock/decide.h finds it.
func verdictOf(rules *ebpf.Map, of kind, at netip.AddrPort) (v netVerdict) {
	v = netVerdict{Rule: -1}
	for _, port := range []uint16{at.Port(), 0} {
		key := ruleKey(rule{kind: of, port: port, at: netip.PrefixFrom(at.Addr().WithZone(""), at.Addr().BitLen())})
		if rules.Lookup(key, &v) == nil {
			break
		}
	}
	return v
}

func (s *Session) isEgress(udp bool, at netip.AddrPort) bool {
	four, six := s.at.Tcp4, s.at.Tcp6
	if udp {
		four, six = s.at.Udp4, s.at.Udp6
	}
	return at == netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), network(four)) || at == netip.AddrPortFrom(netip.IPv6Loopback(), network(six))
}
