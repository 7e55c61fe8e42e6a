package cgroupsock

import (
	"context"
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

var ownServers = policy.NetRule{Host: "localhost", Listen: true, Allow: true}

// A connection to a server of the session's own stays when another policy grants that, too, and goes with the grant.
func TestOwnServersReload(t *testing.T) {
	needRoot(t)
	g := begin(t, ownServers)
	order := []string{"keep open", "listen", "127.0.0.1:9101", "tcp", "127.0.0.1:9101", "listen", "[::1]:9102", "tcp", "[::1]:9102"}
	k := keepOpen(t, g, ".", order)
	d, err := OpenDiag()
	must(t, err)
	defer d.Close()
	for generation, x := range []struct {
		rules []policy.NetRule
		want  string
	}{
		{[]policy.NetRule{ownServers, tcp("127.9.0.1", 1)}, "open"},
		{[]policy.NetRule{listening(tcp("127.0.0.1", 9101)), listening(tcp("::1", 9102)), tcp("127.9.0.1", 1)}, "ECONNABORTED"},
	} {
		g.reload(uint32(generation+2), x.rules...)
		if _, err := g.CloseDenied(d); err != nil {
			t.Error(err)
		}
		if got, want := k.states(), []string{"open", x.want, "open", x.want}; !slices.Equal(got, want) {
			t.Errorf("by policy %d: %q, want %q", generation+2, got, want)
		}
	}
}

// A session can't listen at the port of a process outside, though SO_REUSEPORT lets processes of the same user share it.
func TestOwnServersReuse(t *testing.T) {
	needRoot(t)
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { must(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)) })
	}}
	shared.SetMultipathTCP(false)
	l, err := shared.Listen(context.Background(), "tcp", "127.0.0.1:9103")
	must(t, err)
	defer l.Close()
	g := begin(t, ownServers)
	for order, want := range map[string]string{"127.0.0.1:9103": "EADDRINUSE", "127.0.0.1:9104": "bound"} {
		if got := run(t, g, "reuse", "tcp", order); got != want {
			t.Errorf("%s: %q, want %q", order, got, want)
		}
	}
}
