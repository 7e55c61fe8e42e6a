package cgroupsock

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/event"
)

// Kernel is egress's side of a session: it says where connections that come to egress were going, and has the kernel let the
// session reach places directly. It works on descriptors that somebody else opened, in a process without privileges: since Linux
// 5.19 bpf(2) asks for none to read and write the elements of a map (kernel.unprivileged_bpf_disabled).
type Kernel struct {
	originals, names int
	permitting       sync.Mutex

	hearing sync.Mutex
	heard   map[netTuple]heard
}

// heard is how many datagrams of a socket have come.
type heard struct{ socket, n uint64 }

// maxHeard is as many ports as the kernel remembers.
const maxHeard = 8192

// NewKernel is a session's, by the descriptors of its maps (Session.Descriptors), which stay the caller's.
func NewKernel(originals, names int) *Kernel {
	return &Kernel{originals: originals, names: names, heard: map[netTuple]heard{}}
}

// Original says where the client of a connection to egress was going, and who that is, once: a connection that wasn't led here, or was
// asked about before, has no such place.
func (k *Kernel) Original(client, listener netip.AddrPort) (netip.AddrPort, event.Observed, error) {
	o, err := k.original(unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM, 0, client, listener)
	switch {
	case errors.Is(err, unix.ENOENT):
		return netip.AddrPort{}, event.Observed{}, fmt.Errorf("the connection from %s wasn't led here from anywhere", client)
	case err != nil:
		return netip.AddrPort{}, event.Observed{}, fmt.Errorf("ask where the connection from %s was going: %w", client, err)
	}
	return addrPort(o.To.Addr, uint16(o.To.Port)), o.By.process(), nil
}

// Sender says who sent a datagram that was redirected from there to egress, once for each: whoever has the port next wasn't redirected.
func (k *Kernel) Sender(client, listener netip.AddrPort) (event.Observed, error) {
	o, err := k.original(unix.BPF_MAP_LOOKUP_ELEM, kindUDP, client, listener)
	if err != nil {
		return event.Observed{}, fmt.Errorf("ask who sent a datagram from %s: %w", client, err)
	}
	if !k.hear(newTuple(kindUDP, client, listener), o.Socket, o.Sent) {
		return event.Observed{}, fmt.Errorf("the datagram from %s wasn't led here", client)
	}
	return o.By.process(), nil
}

// hear counts a datagram of a socket that has sent so many, and says whether it can be one of these.
func (k *Kernel) hear(t netTuple, socket, sent uint64) bool {
	k.hearing.Lock()
	defer k.hearing.Unlock()
	h, known := k.heard[t]
	if !known && len(k.heard) >= maxHeard {
		k.forgetOne()
	}
	if h.socket != socket {
		h = heard{socket: socket}
	}
	if h.n >= sent {
		return false
	}
	h.n++
	k.heard[t] = h
	return true
}

// forgetOne makes room. The kernel forgets it, too: what it has counted could be said to be still to come.
func (k *Kernel) forgetOne() {
	for t := range k.heard {
		_ = element(unix.BPF_MAP_DELETE_ELEM, k.originals, unsafe.Pointer(&t), nil)
		delete(k.heard, t)
		return
	}
}

func (k *Kernel) original(do uintptr, of kind, client, listener netip.AddrPort) (o netOriginal, err error) {
	key := newTuple(of, client, listener)
	return o, element(do, k.originals, unsafe.Pointer(&key), unsafe.Pointer(&o))
}

func newTuple(of kind, client, listener netip.AddrPort) netTuple {
	return netTuple{
		Client: words(client.Addr()), Listener: words(listener.Addr()),
		ClientPort: network(client.Port()), ListenerPort: network(listener.Port()), Kind: uint32(of),
	}
}

func (t *netTask) process() event.Observed {
	return event.Observed{PID: int(t.Ids >> 32), UID: int(t.Uid), Comm: comm(&t.Comm), SeenAt: time.Duration(t.Since)}
}

func comm(c *[16]int8) string {
	return unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(c)), len(c)))
}

// Permit lets the session reach an address and port directly until then, or longer if that was said before by the policy of the same
// generation. proto is "tcp" or "udp". What the policy's own rules about addresses deny stays denied. A time that has passed lets go on what
// was let there before.
func (k *Kernel) Permit(generation uint32, proto string, to netip.AddrPort, until time.Time) error {
	key := nameKey(proto == "udp", to)
	k.permitting.Lock()
	defer k.permitting.Unlock()
	name, before := netName{Until: uint64(max(0, sinceBoot()+time.Until(until))), Generation: generation}, netName{}
	err := element(unix.BPF_MAP_LOOKUP_ELEM, k.names, unsafe.Pointer(&key), unsafe.Pointer(&before))
	if err == nil && before.Generation == generation && before.Until >= name.Until {
		return nil
	}
	put := func() error {
		return element(unix.BPF_MAP_UPDATE_ELEM, k.names, unsafe.Pointer(&key), unsafe.Pointer(&name))
	}
	if err = put(); errors.Is(err, unix.E2BIG) {
		now := uint64(sinceBoot())
		sweep(k.names, func(n netName) bool { return n.Until <= now })
		err = put()
	}
	if err != nil {
		return fmt.Errorf("let the session reach %s: %w", to, err)
	}
	return nil
}

func nameKey(udp bool, to netip.AddrPort) netNameKey {
	key := netNameKey{Addr: words(to.Addr()), Port: network(to.Port())}
	if udp {
		key.Kind = uint16(kindUDP)
	}
	return key
}

// sweep makes room: it removes places that names have led to, and says which.
func sweep(names int, over func(netName) bool) (list []netNameKey) {
	var at *netNameKey
	for {
		var next netNameKey
		if element(unix.BPF_MAP_GET_NEXT_KEY, names, unsafe.Pointer(at), unsafe.Pointer(&next)) != nil {
			break
		}
		var name netName
		err := element(unix.BPF_MAP_LOOKUP_ELEM, names, unsafe.Pointer(&next), unsafe.Pointer(&name))
		if err == nil && over(name) {
			list = append(list, next)
		}
		at = &next
	}
	for i := range list {
		_ = element(unix.BPF_MAP_DELETE_ELEM, names, unsafe.Pointer(&list[i]), nil)
	}
	return list
}

// element is bpf(2) for one element of a map.
func element(cmd uintptr, fd int, key, value unsafe.Pointer) error {
	attr := struct { // of BPF_MAP_*_ELEM in union bpf_attr
		fd         uint32
		_          uint32
		key, value unsafe.Pointer
		flags      uint64
	}{fd: uint32(fd), key: key, value: value}
	for {
		_, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return os.NewSyscallError("bpf", errno)
	}
}
