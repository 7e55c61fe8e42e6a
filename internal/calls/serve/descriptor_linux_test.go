package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/calls/client"
	"github.com/toolguard/toolguard/internal/childtest"
)

func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// pair is a pair of sockets, which the test's end closes.
func pair(t *testing.T, kind int) [2]int {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	childtest.Must(t, err)
	return fds
}

// descriptors is how many descriptors this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	childtest.Must(t, err)
	return len(list)
}

// Messages that don't carry exactly one end of a pair of stream sockets are dropped with what they carry. The next connection is answered.
func TestBadMessages(t *testing.T) {
	s := New("one", newFake(), nil)
	f, err := s.Descriptor()
	childtest.Must(t, err)
	defer f.Close()
	fd := int(f.Fd())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	childtest.Must(t, err)
	defer l.Close()
	named, err := net.Dial("unix", l.Addr().String())
	childtest.Must(t, err)
	namedFile, err := named.(*net.UnixConn).File()
	childtest.Must(t, err)
	listening, err := l.File()
	childtest.Must(t, err)
	null, err := os.Open("/dev/null")
	childtest.Must(t, err)
	stream, packet, datagram := pair(t, unix.SOCK_STREAM), pair(t, unix.SOCK_SEQPACKET), pair(t, unix.SOCK_DGRAM)
	inet, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	childtest.Must(t, err)
	for name, x := range map[string]struct {
		text string
		fds  []int
	}{
		"no bytes":        {"", nil},
		"no descriptor":   {"x", nil},
		"two":             {"x", []int{stream[0], stream[1]}},
		"many":            {"x", []int{stream[0], stream[1], stream[0], stream[1], stream[0], stream[1]}},
		"two bytes":       {"xx", []int{stream[0]}},
		"many bytes":      {string(make([]byte, 5000)), []int{stream[0]}},
		"a device":        {"x", []int{int(null.Fd())}},
		"seqpacket":       {"x", []int{packet[0]}},
		"datagrams":       {"x", []int{datagram[0]}},
		"internet":        {"x", []int{inet}},
		"a server's":      {"x", []int{int(namedFile.Fd())}},
		"a listener":      {"x", []int{int(listening.Fd())}},
		"the descriptor":  {"x", []int{fd}},
		"not for a queue": {"x", []int{stream[0], int(null.Fd())}},
	} {
		before := descriptors(t)
		var rights []byte
		if x.fds != nil {
			rights = unix.UnixRights(x.fds...)
		}
		childtest.Must(t, unix.Sendmsg(fd, []byte(x.text), rights, nil, 0))
		c := dial(t, fmt.Sprintf("fd:%d", fd))
		var p Peer
		if err := c.Do(t.Context(), "GET", "/peer", nil, &p); err != nil || !p.Confined {
			t.Errorf("after %s: %+v, %v", name, p, err)
		}
		childtest.Must(t, c.Close())
		for end := time.Now().Add(time.Minute); descriptors(t) > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d descriptors, and %d before", name, descriptors(t), before)
			}
		}
	}
	childtest.Must(t, s.Close())
	for _, fd := range []int{stream[0], stream[1], packet[0], packet[1], datagram[0], datagram[1], inet} {
		childtest.Must(t, unix.Close(fd))
	}
	for _, f := range []interface{ Close() error }{named, namedFile, listening, null} {
		childtest.Must(t, f.Close())
	}
}

// A process that shares a connection's open file can't make the server block: not by its mode, and not by not reading.
func TestSharedOpenFile(t *testing.T) {
	h := newFake()
	s := New("one", h, nil)
	f, err := s.Descriptor()
	childtest.Must(t, err)
	defer f.Close()
	fds := pair(t, unix.SOCK_STREAM)
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	defer unix.Close(fds[1])
	childtest.Must(t, unix.Sendmsg(int(f.Fd()), []byte{0}, unix.UnixRights(fds[1]), nil, 0))
	ask := func(path string) {
		_, err := ours.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n"))
		childtest.Must(t, err)
	}
	in := bufio.NewReader(ours)
	ask("/peer")
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != 200 {
		t.Fatal(r, err)
	}
	_, err = in.Discard(int(r.ContentLength))
	childtest.Must(t, err)
	childtest.Must(t, unix.SetNonblock(fds[1], false)) // the mode of the open file, which the server uses, too
	ask("/wait")
	<-h.waiting
	time.Sleep(100 * time.Millisecond) // by now the server reads again, to notice that the client disconnects
	childtest.Must(t, s.Close())       // returns
	<-h.canceled
}

// After one process of the session has shut the descriptor down nothing is received, and the server doesn't spin: it has stopped.
func TestShutDownDescriptor(t *testing.T) {
	s := New("one", newFake(), nil)
	f, err := s.Descriptor()
	childtest.Must(t, err)
	defer f.Close()
	_ = dial(t, fmt.Sprintf("fd:%d", f.Fd()))
	childtest.Must(t, unix.Shutdown(int(f.Fd()), unix.SHUT_RDWR))
	s.mu.Lock()
	open := len(s.open)
	s.mu.Unlock()
	for end := time.Now().Add(time.Minute); open > 1; time.Sleep(time.Millisecond) { // the connection stays
		if time.Now().After(end) {
			t.Fatal("the server still receives")
		}
		s.mu.Lock()
		open = len(s.open)
		s.mu.Unlock()
	}
	if _, err := client.Dial(t.Context(), fmt.Sprintf("fd:%d", f.Fd())); err == nil {
		t.Error("a connection over a descriptor that is shut down")
	}
	childtest.Must(t, s.Close())
}

// A flood of connections over the descriptor waits in the kernel. It takes neither the connections of others, nor more descriptors than there are
// slots.
func TestDescriptorFlood(t *testing.T) {
	h := newFake()
	s, path := outside(t, h)
	f, err := s.Descriptor()
	childtest.Must(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	for range maxConnections {
		go func() { // each waits until the end
			c, err := client.Dial(ctx, fmt.Sprintf("fd:%d", f.Fd()))
			if err == nil {
				_ = c.Do(ctx, "GET", "/wait", nil, nil)
			}
		}()
	}
	for range maxConnections {
		<-h.waiting
	}
	for range 3 { // in the queue
		fds := pair(t, unix.SOCK_STREAM)
		defer unix.Close(fds[0])
		childtest.Must(t, unix.Sendmsg(int(f.Fd()), []byte{0}, unix.UnixRights(fds[1]), nil, unix.MSG_DONTWAIT))
		childtest.Must(t, unix.Close(fds[1]))
	}
	var p Peer
	if err := dial(t, path).Do(t.Context(), "GET", "/peer", nil, &p); err != nil || p.Confined {
		t.Errorf("an unconfined peer: %+v, %v", p, err)
	}
	if n := len(s.slots[confined]); n != maxConnections {
		t.Errorf("%d connections", n)
	}
	cancel()
	for range maxConnections {
		<-h.canceled
	}
	if err := dial(t, fmt.Sprintf("fd:%d", f.Fd())).Do(t.Context(), "GET", "/peer", nil, &p); err != nil || !p.Confined {
		t.Errorf("after the flood: %+v, %v", p, err)
	}
}
