//go:build linux

package net

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// elsewhere connects its standard input anew.
const elsewhere = python + `'import ctypes, socket, struct
libc = ctypes.CDLL(None)
libc.connect(0, struct.pack("=HHI", 0, 0, 0) + bytes(8), 16)
libc.connect(0, struct.pack("=HH", 2, socket.htons(5432)) + socket.inet_aton("` + deniedIP + `") + bytes(8), 16)
c = socket.socket(fileno=0); c.sendall(b"ping"); print(c.recv(99))'`

// A socket that is handed to the command can be connected to anything, and nothing holds it: none is, where the network is limited.
func TestHandedSocket(t *testing.T) {
	needs(t, "python3")
	newPlace(t, "", "") // which skips where there is no internet
	listener, err := net.Listen("tcp4", allowedIP+":0")
	must(t, err)
	defer listener.Close()
	connected, err := net.Dial("tcp4", listener.Addr().String())
	must(t, err)
	defer connected.Close()
	datagrams, err := net.Dial("udp4", allowedIP+":9999")
	must(t, err)
	defer datagrams.Close()
	for name, s := range map[string]interface{ File() (*os.File, error) }{
		"TCP": connected.(*net.TCPConn), "listening": listener.(*net.TCPListener), "UDP": datagrams.(*net.UDPConn),
	} {
		t.Run(name, func(t *testing.T) {
			for _, x := range []struct {
				access, rules string
				starts        bool
			}{
				{"", allow("allowed.test"), false},
				{"", deny(deniedIP), false},
				{`default = { net = "deny" }`, "", false},
				{"", "", true},
			} {
				handed, err := s.File()
				must(t, err)
				p := newPlace(t, x.access, x.rules)
				cmd := p.guarded("echo started")
				cmd.Stdin = handed
				got := outcomeOf(t, cmd)
				handed.Close()
				if started := strings.Contains(got.said, "started"); started != x.starts || started != (got.code == 0) {
					t.Errorf("%s%s: %+v", x.access, x.rules, got)
				}
			}
		})
	}
	t.Run("what it's for", func(t *testing.T) {
		handed, err := connected.(*net.TCPConn).File()
		must(t, err)
		defer handed.Close()
		p := newPlace(t, "", "")
		cmd := p.command(elsewhere)
		cmd.Stdin = handed
		if got := outcomeOf(t, cmd); !strings.Contains(got.said, "echo "+deniedIP) {
			t.Errorf("without toolguard it says %q", got.said)
		}
	})
	t.Run("unix", func(t *testing.T) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		must(t, err)
		theirs := os.NewFile(uintptr(pair[0]), "theirs")
		defer theirs.Close()
		if _, err := unix.Write(pair[1], []byte("words\n")); err != nil {
			t.Fatal(err)
		}
		unix.Close(pair[1])
		cmd := newPlace(t, "", allow("allowed.test")).guarded("cat")
		cmd.Stdin = theirs
		if got := outcomeOf(t, cmd); got.said != "words\n" {
			t.Errorf("%+v", got)
		}
	})
}
