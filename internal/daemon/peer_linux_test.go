//go:build !cgo

package daemon

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Who isn't in the PID namespace of toolguardd's has no number there, and is told so.
func TestPeerElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a namespace")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	end := os.NewFile(uintptr(fds[0]), "socket")
	defer end.Close()
	defer unix.Close(fds[1])
	for _, flags := range []uintptr{0, unix.CLONE_NEWPID} {
		cmd := childtest.Command(t, 0, netOrder{Peer: true})
		var said bytes.Buffer
		cmd.ExtraFiles, cmd.Stderr, cmd.SysProcAttr = []*os.File{end}, &said, &syscall.SysProcAttr{Cloneflags: flags}
		err := cmd.Run()
		if outside := strings.Contains(said.String(), "run toolguardd outside of it"); (err == nil) != (flags == 0) || outside != (flags != 0) {
			t.Errorf("flags %#x: %v, %s", flags, err, &said)
		}
	}
}
