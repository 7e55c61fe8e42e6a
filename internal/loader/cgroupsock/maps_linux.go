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

// Kernel is egress's access to a session's maps: it returns the original destination of redirected connections, and permits the session
// to reach addresses directly. It uses descriptors that another process opened, in a process without privileges: since Linux 5.19
// bpf(2) needs none to read and write the elements of a map (kernel.unprivileged_bpf_disabled).
type Kernel struct {
	originals, names int
	permitting       sync.Mutex

	receivedMu sync.Mutex
	received   map[netTuple]received
}

// received is the number of datagrams received from a socket, and of those that it was seen to have sent.
type received struct{ socket, n, sent uint64 }

// maxReceived is the number of ports in the kernel's map.
const maxReceived = 8192

// NewKernel uses the descriptors of a session's maps (Session.Descriptors), which the caller closes.
func NewKernel(originals, names int) *Kernel {
	return &Kernel{originals: originals, names: names, received: map[netTuple]received{}}
}

// Original returns the original destination and the client of a connection to egress, once. It fails for a connection that wasn't
// redirected, and for one that it has already returned.
func (k *Kernel) Original(client, listener netip.AddrPort) (netip.AddrPort, event.Observed, error) {
	o, err := k.original(unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM, 0, client, listener)
	switch {
	case errors.Is(err, unix.ENOENT):
		return netip.AddrPort{}, event.Observed{}, fmt.Errorf("the connection from %s wasn't redirected to egress", client)
	case err != nil:
		return netip.AddrPort{}, event.Observed{}, fmt.Errorf("look up the original destination of the connection from %s: %w", client, err)
	}
	return addrPort(o.To.Addr, uint16(o.To.Port)), o.By.process(), nil
}

// Sender returns the process that sent a datagram which was redirected to egress, once for each datagram: a later socket at the same port
// wasn't redirected.
func (k *Kernel) Sender(client, listener netip.AddrPort) (event.Observed, error) {
	o, err := k.original(unix.BPF_MAP_LOOKUP_ELEM, kindUDP, client, listener)
	if err != nil {
		return event.Observed{}, fmt.Errorf("look up the sender of a datagram from %s: %w", client, err)
	}
	if !k.receive(newTuple(kindUDP, client, listener), o.Socket, o.Sent) {
		return event.Observed{}, fmt.Errorf("the datagram from %s wasn't redirected to egress", client)
	}
	return o.By.process(), nil
}

// receive counts a datagram of a socket that has sent at least that many, and reports whether it can be one of them. Callers look the
// number up before that, and may call in another order.
func (k *Kernel) receive(t netTuple, socket, sent uint64) bool {
	k.receivedMu.Lock()
	defer k.receivedMu.Unlock()
	h, known := k.received[t]
	if !known && len(k.received) >= maxReceived {
		k.evictOne()
	}
	if h.socket != socket {
		h = received{socket: socket}
	}
	if h.sent = max(h.sent, sent); h.n >= h.sent {
		return false
	}
	h.n++
	k.received[t] = h
	return true
}

// evictOne evicts an entry, also from the kernel's map: otherwise the kernel's count would permit that many datagrams again.
func (k *Kernel) evictOne() {
	for t := range k.received {
		_ = mapElement(unix.BPF_MAP_DELETE_ELEM, k.originals, unsafe.Pointer(&t), nil)
		delete(k.received, t)
		return
	}
}

func (k *Kernel) original(do uintptr, of kind, client, listener netip.AddrPort) (o netOriginal, err error) {
	key := newTuple(of, client, listener)
	return o, mapElement(do, k.originals, unsafe.Pointer(&key), unsafe.Pointer(&o))
}

func newTuple(of kind, client, listener netip.AddrPort) netTuple {
	return netTuple{
		Client: addrWords(client.Addr()), Listener: addrWords(listener.Addr()),
		ClientPort: networkOrder(client.Port()), ListenerPort: networkOrder(listener.Port()), Kind: uint32(of),
	}
}

func (t *netTask) process() event.Observed {
	return event.Observed{PID: int(t.Ids >> 32), UID: int(t.Uid), Comm: comm(&t.Comm), SeenAt: time.Duration(t.Since)}
}

func comm(c *[16]int8) string {
	return unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(c)), len(c)))
}

// Permit lets the session reach an address and port directly until a time, or longer if the policy of the same generation permitted it
// before. proto is "tcp" or "udp". A denial by the policy's rules about addresses prevails. With a time in the past, sockets that were
// permitted before stay permitted.
func (k *Kernel) Permit(generation uint32, proto string, to netip.AddrPort, until time.Time) error {
	key := nameKey(proto == "udp", to)
	k.permitting.Lock()
	defer k.permitting.Unlock()
	name, before := netName{Until: uint64(max(0, sinceBoot()+time.Until(until))), Generation: generation}, netName{}
	err := mapElement(unix.BPF_MAP_LOOKUP_ELEM, k.names, unsafe.Pointer(&key), unsafe.Pointer(&before))
	if err == nil && before.Generation == generation && before.Until >= name.Until {
		return nil
	}
	put := func() error {
		return mapElement(unix.BPF_MAP_UPDATE_ELEM, k.names, unsafe.Pointer(&key), unsafe.Pointer(&name))
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
	key := netNameKey{Addr: addrWords(to.Addr()), Port: networkOrder(to.Port())}
	if udp {
		key.Kind = uint16(kindUDP)
	}
	return key
}

// sweep removes the addresses permitted by names for which over is true, and returns their keys.
func sweep(names int, over func(netName) bool) (list []netNameKey) {
	var at *netNameKey
	for {
		var next netNameKey
		if mapElement(unix.BPF_MAP_GET_NEXT_KEY, names, unsafe.Pointer(at), unsafe.Pointer(&next)) != nil {
			break
		}
		var name netName
		err := mapElement(unix.BPF_MAP_LOOKUP_ELEM, names, unsafe.Pointer(&next), unsafe.Pointer(&name))
		if err == nil && over(name) {
			list = append(list, next)
		}
		at = &next
	}
	for i := range list {
		_ = mapElement(unix.BPF_MAP_DELETE_ELEM, names, unsafe.Pointer(&list[i]), nil)
	}
	return list
}

// mapElement is bpf(2) for one element of a map.
func mapElement(cmd uintptr, fd int, key, value unsafe.Pointer) error {
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
