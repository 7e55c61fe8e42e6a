package landlock

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// TestAbstractSocket checks that abstract sockets can't be reached if fs or net is restricted, and otherwise can.
func TestAbstractSocket(t *testing.T) {
	version := abi(t)
	if version < 6 {
		t.Skip("abstract unix sockets need Landlock ABI 6")
	}
	name := fmt.Sprintf("toolguard-test-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	childtest.Must(t, err)
	defer l.Close()
	op := "abstract " + name
	for _, c := range []struct {
		layer policy.SourceLayer
		want  syscall.Errno
	}{
		{policy.SourceLayer{}, 0},
		{policy.SourceLayer{FS: []policy.FSRule{rule("ro", r)}}, unix.EPERM},
		{policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}}, unix.EPERM},
	} {
		if got := inChild(t, os.Getuid(), mustPlan(compileAt(t, makeWorkspace(t), c.layer), version), op); got[op] != c.want {
			t.Errorf("%+v: %v, want %v", c.layer.Defaults, got[op], c.want)
		}
	}
}

// TestPorts checks TCP ports, and logs why package seccomp also denies TCP Fast Open.
func TestPorts(t *testing.T) {
	version := abi(t)
	if version < 4 {
		t.Skip("TCP needs Landlock ABI 4")
	}
	listen := func() (net.Listener, int) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		childtest.Must(t, err)
		return l, l.Addr().(*net.TCPAddr).Port
	}
	good, granted := listen()
	defer good.Close()
	bad, other := listen()
	defer bad.Close()
	everywhere := func(port int) []policy.NetRule {
		return []policy.NetRule{{Host: "0.0.0.0/0", Port: port, Allow: true}, {Host: "::/0", Port: port, Allow: true}}
	}
	c := compileAt(t, makeWorkspace(t), policy.SourceLayer{Net: everywhere(granted)})
	mustBeEnforced(t, c, version)
	yes, no, bind := fmt.Sprint("tcp ", granted), fmt.Sprint("tcp ", other), "bindtcp 0"
	fast := fmt.Sprint("fastopen ", other)
	got := inChild(t, os.Getuid(), mustPlan(c, version), yes, no, bind, fast)
	if got[yes] != 0 || got[no] != unix.EACCES || got[bind] != unix.EACCES {
		t.Errorf("%v", got)
	}
	t.Logf("TCP Fast Open to a port that Landlock denies: %v", got[fast])
	for d, e := range inChild(t, os.Getuid(), nil, yes, no, bind, fast) {
		if e != 0 {
			t.Errorf("bare %s: %v", d, e)
		}
	}
}

// TestUDPPorts checks UDP ports, with connected sockets and without.
func TestUDPPorts(t *testing.T) {
	version := abi(t)
	if version < 10 {
		t.Skip("UDP needs Landlock ABI 10")
	}
	open := func() (*net.UDPConn, int) {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		childtest.Must(t, err)
		return c, c.LocalAddr().(*net.UDPAddr).Port
	}
	good, granted := open()
	defer good.Close()
	bad, other := open()
	defer bad.Close()
	var rules []policy.NetRule
	for _, host := range []string{"0.0.0.0/0", "::/0"} {
		rules = append(rules, policy.NetRule{Host: host, Port: granted, Protocol: "udp", Allow: true})
	}
	c := compileAt(t, makeWorkspace(t), policy.SourceLayer{Net: rules})
	mustBeEnforced(t, c, version)
	free, freePort := open()
	free.Close()
	want := map[string]unix.Errno{
		fmt.Sprint("udp ", granted): 0, fmt.Sprint("udpto ", granted): 0, "bindudp 0": 0,
		fmt.Sprint("udp ", other): unix.EACCES, fmt.Sprint("udpto ", other): unix.EACCES, fmt.Sprint("bindudp ", freePort): unix.EACCES,
	}
	ops := slices.Sorted(maps.Keys(want))
	for d, got := range inChild(t, os.Getuid(), mustPlan(c, version), ops...) {
		if got != want[d] {
			t.Errorf("%s: %v, want %v", d, got, want[d])
		}
	}
	for d, got := range inChild(t, os.Getuid(), nil, ops...) {
		if got != 0 {
			t.Errorf("bare %s: %v", d, got)
		}
	}
}
