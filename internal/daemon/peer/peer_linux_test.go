//go:build !cgo

package peer

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestMain has this program identify the peer of descriptor 3 when TestPeerElsewhere starts it.
func TestMain(m *testing.M) {
	childtest.Main(m, func(bool) (uint64, error) {
		_, err := peerOn(3)
		return 0, err
	})
}

// The peer is the process that made the connection.
func TestPeer(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	childtest.Must(t, err)
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	childtest.Must(t, err)
	defer client.Close()
	c, err := l.AcceptUnix()
	childtest.Must(t, err)
	defer c.Close()
	p, err := identify(c, func(int, int) (uint64, error) { return 7, nil })
	if err != nil || p.Session != 7 || p.UID != os.Getuid() || p.PID() != os.Getpid() || p.Process.Alive() != nil {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := p.checkOwner(); err != nil {
		t.Error(err)
	}
	p.UID++
	if err := p.checkOwner(); err == nil {
		t.Error("the process counts as another user's")
	}
	p.Process.Close()
}

// A client outside of toolguardd's PID namespace is rejected, with the reason.
func TestPeerElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a namespace")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	childtest.Must(t, err)
	end := os.NewFile(uintptr(fds[0]), "socket")
	defer end.Close()
	defer unix.Close(fds[1])
	for _, flags := range []uintptr{0, unix.CLONE_NEWPID} {
		cmd := childtest.Command(t, 0, true)
		var out bytes.Buffer
		cmd.ExtraFiles, cmd.Stderr, cmd.SysProcAttr = []*os.File{end}, &out, &syscall.SysProcAttr{Cloneflags: flags}
		err := cmd.Run()
		if outside := strings.Contains(out.String(), "run toolguardd outside of"); (err == nil) != (flags == 0) || outside != (flags != 0) {
			t.Errorf("flags %#x: %v, %s", flags, err, &out)
		}
	}
}
