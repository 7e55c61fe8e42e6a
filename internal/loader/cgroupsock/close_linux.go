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
	replyStorages   = 20 // INET_DIAG_SK_BPF_STORAGES
	replyStorage    = 1  // SK_DIAG_BPF_STORAGE
	replyValue      = 3  // SK_DIAG_BPF_STORAGE_MAP_VALUE
	diagTimeout     = 10 // seconds

	allStates   = 0xfff
	established = 1
	listens     = 10
)

// diagID identifies a socket (struct inet_diag_sockid).
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

// sessionSocket is a socket of a session.
type sessionSocket struct {
	diagSocket
	protocol uint8
	peer     netPeer // of TCP; the zero value: no record
}

// Diag asks the kernel for the sockets of a network namespace, and closes some.
type Diag struct {
	sockets map[int]*nl.SocketHandle
}

// OpenDiag opens sock_diag in this thread's network namespace. It fails if the kernel can't close other processes' sockets.
func OpenDiag() (*Diag, error) {
	s, err := nl.Subscribe(unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open a socket of sock_diag: %w", err)
	}
	_ = s.SetReceiveTimeout(&unix.Timeval{Sec: diagTimeout})
	d := &Diag{sockets: map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: s}}}
	for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		none := sessionSocket{diagSocket: diagSocket{Family: unix.AF_INET}, protocol: protocol}
		if _, err := d.close(&none); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// Close closes the netlink socket. It closes no socket of a session.
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

// raw is a part of a request that is sent unchanged.
type raw []byte

func (r raw) Len() int          { return len(r) }
func (r raw) Serialize() []byte { return r }

// close closes a socket (SOCK_DESTROY): its processes get ECONNABORTED, and a TCP peer gets a reset. found is false if the socket has closed
// already, or if the kernel finds another one at its address (SO_REUSEPORT), which stays open.
func (d *Diag) close(k *sessionSocket) (found bool, err error) {
	_, err = d.request(nl.SOCK_DESTROY, unix.NLM_F_ACK, diagRequest{Family: k.Family, Protocol: k.protocol, ID: k.ID}).Execute(unix.NETLINK_INET_DIAG, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, errors.New("the kernel can't close other processes' sockets: use a kernel with CONFIG_INET_DIAG_DESTROY")
	case err != nil:
		return false, fmt.Errorf("close a socket by sock_diag: %w", err)
	}
	return true, nil
}

// cgroupFilter is a filter for the sockets that were made in one of the cgroups. An instruction compares one cgroup with the socket's
// (INET_DIAG_BC_CGROUP_COND, Linux 5.8). A socket passes if the filter ends exactly after its last instruction.
func cgroupFilter(cgroups []uint64) (filter []byte) {
	step := func(code, yes uint8, no int) { // struct inet_diag_bc_op: how many bytes to advance
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

// list returns all TCP and UDP sockets that were made in one of the cgroups, with each one's record in the map peers.
func (d *Diag) list(cgroups []uint64, peers int) (all []*sessionSocket, err error) {
	filter := cgroupFilter(cgroups)
	storages := nl.NewRtAttr(requestStorages, nil)
	storages.AddRtAttr(requestMap, binary.NativeEndian.AppendUint32(nil, uint32(peers)))
	for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			asks := diagRequest{Family: family, Protocol: protocol, States: allStates}
			messages, err := d.request(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, asks, nl.NewRtAttr(requestBytecode, filter), storages).
				Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
			if err != nil {
				return nil, fmt.Errorf("list the session's sockets by sock_diag: %w", err)
			}
			for _, m := range messages {
				k := &sessionSocket{protocol: protocol}
				n, err := binary.Decode(m, binary.NativeEndian, &k.diagSocket)
				if err == nil {
					err = k.readPeer(m[n:])
				}
				if err != nil {
					return nil, fmt.Errorf("read a socket's attributes from sock_diag: %w", err)
				}
				all = append(all, k)
			}
		}
	}
	return all, nil
}

func (k *sessionSocket) readPeer(attributes []byte) error {
	for _, kind := range []uint16{replyStorages, replyStorage, replyValue} {
		found, err := attribute(attributes, kind)
		if err != nil || found == nil {
			return err
		}
		attributes = found
	}
	if len(attributes) != int(unsafe.Sizeof(k.peer)) {
		return fmt.Errorf("its record has %d bytes", len(attributes))
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

// endpoints returns a socket's own address and its peer's.
func (k *sessionSocket) endpoints() (here, there netip.AddrPort) {
	at := func(addr [16]byte, port [2]byte) netip.AddrPort {
		a := netip.AddrFrom16(addr)
		if k.Family == unix.AF_INET {
			a = netip.AddrFrom4([4]byte(addr[:4]))
		}
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port[:]))
	}
	return at(k.ID.Source, k.ID.From), at(k.ID.Target, k.ID.To)
}

// CloseDenied closes the session's connections that the rules in force don't grant, in either direction. It closes listeners and
// connected UDP sockets only if the rules before the last Reload granted them. It returns the number. Egress closes the connections
// that it decides about itself.
func (s *Session) CloseDenied(d *Diag) (closed int, err error) {
	former := s.former
	s.former = nil
	defer former.Close() // also nil
	var now *ebpf.Map
	if err := s.maps[netMapImages].Lookup(uint32(0), &now); err != nil {
		return 0, fmt.Errorf("open the rules about addresses: %w", err)
	}
	defer now.Close()
	return s.closeSome(d, s.folder(), func(k *sessionSocket) bool {
		connects := k.protocol == unix.IPPROTO_TCP && k.State != listens
		return !s.grants(now, k) && (connects || former != nil && s.grants(former, k) || s.revoked[k.name()])
	})
}

// HasSockets reports whether the session has ever made a socket.
func (s *Session) HasSockets() bool { return atomic.LoadUint64(&s.at.Sockets) > 0 }

// CloseOpen closes all sockets of the session that a process has open, and returns their number. A socket that no process has open only
// sends its remaining data.
func (s *Session) CloseOpen(d *Diag) (closed int, err error) { return s.CloseOpenIn(d, s.folder()) }

// CloseOpenIn is CloseOpen for the sockets that were made in a cgroup beneath the session's, or in its descendants.
func (s *Session) CloseOpenIn(d *Diag, cgroup string) (closed int, err error) {
	return s.closeSome(d, cgroup, func(k *sessionSocket) bool { return k.Inode != 0 })
}

// folder is the path of the session's cgroup.
func (s *Session) folder() string { return fmt.Sprintf("/proc/self/fd/%d/", s.cgroup.Fd()) }

// cgroups returns the ids of a cgroup and of all its descendants, which nested sessions have: the inode numbers of their folders.
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

// rounds bounds the attempts to close sockets at whose address the kernel finds another one, until that one is closed.
const rounds = 64

func (s *Session) closeSome(d *Diag, cgroup string, which func(*sessionSocket) bool) (closed int, err error) {
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
	return len(done), errors.New("some of its sockets share an address (SO_REUSEPORT), at which the kernel finds other sockets")
}

// name is the key of the permission by name that the socket may be connected with.
func (k *sessionSocket) name() netNameKey {
	_, there := k.endpoints()
	return nameKey(k.protocol == unix.IPPROTO_UDP, there)
}

// grants reports whether rules grant a socket in its present state.
func (s *Session) grants(rules *ebpf.Map, k *sessionSocket) bool {
	here, there := k.endpoints()
	udp := k.protocol == unix.IPPROTO_UDP
	switch {
	case !udp && (k.State == listens || k.peer.Waits != 0):
		return verdictOf(rules, kindListen, here).Action == uint32(direct)
	case !udp && k.peer.Own != 0 && atomic.LoadUint64(&s.at.Own) != 0:
		return true
	case udp && k.State != established: // each datagram is decided about
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

// verdictOf returns the rules' verdict on an address, as decide in bpf/sock/decide.h does.
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
	return at == netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), networkOrder(four)) || at == netip.AddrPortFrom(netip.IPv6Loopback(), networkOrder(six))
}
