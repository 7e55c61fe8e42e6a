//go:build linux

package net

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// elsewhere reconnects its standard input.
const elsewhere = python + `'import ctypes, socket, struct
libc = ctypes.CDLL(None)
libc.connect(0, struct.pack("=HHI", 0, 0, 0) + bytes(8), 16)
libc.connect(0, struct.pack("=HH", 2, socket.htons(5432)) + socket.inet_aton("` + deniedIP + `") + bytes(8), 16)
c = socket.socket(fileno=0); c.sendall(b"ping"); print(c.recv(99))'`

// An inherited socket could be connected to anything, and no program decides about it: where the network is limited, none is inherited.
func TestHandedSocket(t *testing.T) {
	needs(t, "python3")
	newPlace(t, "", "") // which skips where there is no internet
	listener, err := net.Listen("tcp4", allowedIP+":0")
	must(t, err)
	connected, err := net.Dial("tcp4", listener.Addr().String())
	must(t, err)
	datagrams, err := net.Dial("udp4", allowedIP+":9999")
	must(t, err)
	handed := map[string]*os.File{}
	for name, s := range map[string]interface {
		io.Closer
		File() (*os.File, error)
	}{"TCP": connected.(*net.TCPConn), "listening": listener.(*net.TCPListener), "UDP": datagrams.(*net.UDPConn)} {
		defer s.Close()
		handed[name], err = s.File()
		must(t, err)
		defer handed[name].Close()
		for _, x := range []struct {
			access, rules string
			starts        bool
		}{
			{"", allow("allowed.test"), false},
			{"", deny(deniedIP), false},
			{`default = { net = "deny" }`, "", false},
			{"", "", false},
			{`default = { net = "allow" }`, "", true},
		} {
			cmd := newPlace(t, x.access, x.rules).confined("echo started")
			cmd.Stdin = handed[name]
			got := outcomeOf(t, cmd)
			if started := strings.Contains(got.said, "started"); started != x.starts || started != (got.code == 0) {
				t.Errorf("%s, %s%s: %+v", name, x.access, x.rules, got)
			}
		}
	}
	what := newPlace(t, "", "").command(elsewhere) // it's for
	what.Stdin = handed["TCP"]
	if got := outcomeOf(t, what); !strings.Contains(got.said, "echo "+deniedIP) {
		t.Errorf("without toolguard it prints %q", got.said)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	theirs := os.NewFile(uintptr(pair[0]), "theirs")
	defer theirs.Close()
	_, err = unix.Write(pair[1], []byte("words\n"))
	must(t, errors.Join(err, unix.Close(pair[1])))
	local := newPlace(t, "", allow("allowed.test")).confined("cat")
	local.Stdin = theirs
	if got := outcomeOf(t, local); got.said != "words\n" {
		t.Errorf("a unix socket: %+v", got)
	}
}
