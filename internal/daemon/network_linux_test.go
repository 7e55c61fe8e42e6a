//go:build !cgo

package daemon

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// A session nested in one whose network rules are enforced has no network of its own, and a cgroup beneath the outer one's. Its sockets are
// closed when it ends, whichever process has them, and when the outer session's new policy doesn't allow them.
func TestNestedSockets(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	childtest.Must(t, err)
	defer l.Close()
	go nettest.Accept(l, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	outer := d.confineNet(t, 1, 1000, netOrder{Allowed: l.Addr().String()})
	d.sessions[1] = outer.session
	g, err := managed.NewIn(outer.group.Load().Path(), "2", policy.Limits{}, cgroup.Probe())
	childtest.Must(t, err)
	inner := d.newSession(&record{Number: 2, From: 1}, proc.Ended(1))
	for _, x := range []struct {
		what string
		ends func()
	}{
		{"it ends", func() { inner.closeNestedSockets(g) }},
		{"the outer session's reload", func() { childtest.Must(t, outer.reloadNetwork(2, allows(t, "127.1.0.1:1"))) }}, // the last row: nothing is granted afterwards
	} {
		cmd := exec.Command("bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo open && cat <&3", l.Addr().(*net.TCPAddr).Port))
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
		out, err := cmd.StdoutPipe()
		childtest.Must(t, err)
		childtest.Must(t, cmd.Start())
		if n, err := out.Read(make([]byte, 9)); n != len("open\n") {
			t.Errorf("%s: no connection: %v", x.what, err)
		}
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		x.ends()
		if err := cmd.Wait(); err == nil || !late.Stop() {
			t.Errorf("%s: the connection stays: %v", x.what, err)
		}
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}
