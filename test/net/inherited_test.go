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

// reconnect connects its standard input to another address.
const reconnect = python + `'import ctypes, socket, struct
libc = ctypes.CDLL(None)
libc.connect(0, struct.pack("=HHI", 0, 0, 0) + bytes(8), 16)
libc.connect(0, struct.pack("=HH", 2, socket.htons(5432)) + socket.inet_aton("` + deniedIP + `") + bytes(8), 16)
c = socket.socket(fileno=0); c.sendall(b"ping"); print(c.recv(99))'`

// An inherited socket could be connected to any address, and no BPF program decides about it: where rules limit the network, none is inherited.
func TestInheritedSocket(t *testing.T) {
	needs(t, "python3")
	newFixture(t, "", "") // skips without the simulated internet
	listener, err := net.Listen("tcp4", allowedIP+":0")
	must(t, err)
	connected, err := net.Dial("tcp4", listener.Addr().String())
	must(t, err)
	datagrams, err := net.Dial("udp4", allowedIP+":9999")
	must(t, err)
	sockets := map[string]*os.File{}
	for name, s := range map[string]interface {
		io.Closer
		File() (*os.File, error)
	}{"TCP": connected.(*net.TCPConn), "listening": listener.(*net.TCPListener), "UDP": datagrams.(*net.UDPConn)} {
		defer s.Close()
		sockets[name], err = s.File()
		must(t, err)
		defer sockets[name].Close()
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
			cmd := newFixture(t, x.access, x.rules).confined("echo started")
			cmd.Stdin = sockets[name]
			got := outcomeOf(t, cmd)
			if started := strings.Contains(got.output, "started"); started != x.starts || started != (got.code == 0) {
				t.Errorf("%s, %s%s: %+v", name, x.access, x.rules, got)
			}
		}
	}
	bare := newFixture(t, "", "").command(reconnect) // the control
	bare.Stdin = sockets["TCP"]
	if got := outcomeOf(t, bare); !strings.Contains(got.output, "echo "+deniedIP) {
		t.Errorf("without toolguard it prints %q", got.output)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	outside := os.NewFile(uintptr(pair[0]), "theirs")
	defer outside.Close()
	_, err = unix.Write(pair[1], []byte("text\n"))
	must(t, errors.Join(err, unix.Close(pair[1])))
	unixSocket := newFixture(t, "", allow("allowed.test")).confined("cat")
	unixSocket.Stdin = outside
	if got := outcomeOf(t, unixSocket); got.output != "text\n" {
		t.Errorf("a unix socket: %+v", got)
	}
}
