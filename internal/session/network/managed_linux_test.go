package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/egress"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// mostWait is for what takes moments on a quiet machine.
const mostWait = time.Minute

// elsewhere is a network namespace other than this process's, with what two names lead to, and a session's cgroup.
type world struct {
	t         *testing.T
	group     *cgroup.Group
	namespace *os.File
	dns       netip.AddrPort
	events    *event.Queue

	mu      sync.Mutex
	emitted []event.Event
}

// Write takes an event in.
func (w *world) Write(told *event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emitted = append(w.emitted, *told)
	return nil
}

func (w *world) waitEvent(want string) bool {
	for end := time.Now().Add(mostWait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		for _, t := range w.emitted {
			if strings.Contains(fmt.Sprint(t.Kind, " ", t.Target, " ", t.Reason, " ", t.Extra["why"], t.Extra["what"]), want) {
				w.mu.Unlock()
				return true
			}
		}
		w.mu.Unlock()
	}
	return false
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat("/usr/bin/curl"); err != nil {
		t.Skip("needs curl")
	}
	if built, _ := debug.ReadBuildInfo(); slices.Contains(built.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}) {
		t.Skip("needs CGO_ENABLED=0: this program is egress, too, which has no threads but Go's")
	}
	facts := cgroup.Probe()
	if facts.Base == "" {
		t.Skip("needs cgroup v2: ", facts.Why)
	}
	e := &world{t: t}
	runtime.LockOSThread() // for good: the thread ends with the test
	place, err := netns.New()
	childtest.Must(t, err)
	e.namespace = os.NewFile(uintptr(place), "net")
	childtest.Must(t, nettest.LocalAddresses("93.184.215.1", "93.184.215.2"))
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	childtest.Must(t, err)
	t.Cleanup(func() { _ = names.Close() })
	e.dns = names.LocalAddr().(*net.UDPAddr).AddrPort()
	go nettest.Names{"one.test": {"93.184.215.1"}, "two.test": {"93.184.215.2"}}.ServeUDP(names)
	for _, port := range []string{":80", ":5432"} {
		l, err := net.Listen("tcp", port)
		childtest.Must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go nettest.ServeWeb(l, nil)
	}
	e.group, err = cgroup.New(fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()), policy.Limits{}, facts)
	childtest.Must(t, err)
	t.Cleanup(func() {
		err := e.group.Remove()
		for end := time.Now().Add(mostWait); errors.Is(err, unix.EBUSY) && time.Now().Before(end); { // who has ended counts for a while
			err = e.group.Remove()
		}
		if err != nil {
			t.Error(err)
		}
	})
	e.events = event.NewQueue(e)
	return e
}

// expect has curl fetch in the session.
func (w *world) expect(url, want string) {
	w.t.Helper()
	cmd := exec.Command("/usr/bin/curl", "-sS", "-m", "60", url)
	cmd.Env = []string{"no_proxy=*"}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: w.group.FD()}
	if out, _ := cmd.CombinedOutput(); !regexp.MustCompile(want).Match(out) {
		w.t.Errorf("%s: it says %q, want %s", url, out, want)
	}
}

func (w *world) policy(hosts ...string) *policy.Compiled {
	l := policy.SourceLayer{Authority: policy.Session}
	l.Defaults[policy.Net] = policy.Deny
	for _, h := range hosts {
		r := policy.NetRule{Host: h, Allow: true}
		if strings.HasSuffix(h, ":5432") {
			r.Host, r.Port = strings.TrimSuffix(h, ":5432"), 5432
		}
		l.Net = append(l.Net, r)
	}
	return nettest.Policy(w.t, l)
}

func (w *world) site() Place {
	fd, err := unix.Dup(int(w.namespace.Fd()))
	childtest.Must(w.t, err)
	return Place{Group: w.group, Network: os.NewFile(uintptr(fd), "net"), Upstream: []netip.AddrPort{w.dns}}
}

func (w *world) begin(c *policy.Compiled) *Managed {
	w.t.Helper()
	n, err := Load()
	childtest.Must(w.t, err)
	who := denials.Source{Policies: func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: c}, nil
	}}
	if _, err := n.Begin(who, denials.Config{Session: 7, Self: os.Getpid(), Policy: c, Events: w.events}, w.site()); err != nil {
		w.t.Fatal(err)
	}
	return n
}

const nowhere = "Could not resolve"

// A session's network is held in a network namespace that isn't this process's, by one policy and then by another.
func TestNetworkElsewhere(t *testing.T) {
	e := newWorld(t)
	n := e.begin(e.policy("one.test"))
	e.expect("http://one.test/", "^hello GET http://one.test/")
	e.expect("http://two.test/", nowhere)
	e.expect("http://93.184.215.2:5432/", "ailed to connect|Couldn't connect")
	for i, x := range []struct {
		hosts            []string
		one, two, number string
	}{
		{[]string{"two.test", "93.184.215.2:5432"}, nowhere, "^hello", "^hello"},
		{nil, nowhere, nowhere, "onnect"},
		{[]string{"one.test", "two.test"}, "^hello", "^hello", "onnect"},
	} {
		childtest.Must(t, n.Reload(uint32(i+2), e.policy(x.hosts...)))
		e.expect("http://one.test/", x.one)
		e.expect("http://two.test/", x.two)
		e.expect("http://93.184.215.2:5432/", x.number)
	}
	childtest.Must(t, nettest.Loopback("93.184.215.1/32"))
	e.expect("http://one.test/", nowhere) // it's the machine's own address from now on
	e.expect("http://two.test/", "^hello")
	if c := n.End(); c.Denied == 0 {
		t.Errorf("%+v", c)
	}
	for _, want := range []string{"denial dns://two.test dns_denied", "denial tcp://93.184.215.2:5432 host_not_listed", "denial tcp://93.184.215.1:443 private_address"} {
		if !e.waitEvent(want) {
			t.Errorf("no event %q among %+v", want, e.emitted)
		}
	}
	e.expect("http://one.test/", "Could not resolve|onnect")
}

// A reload closes the connections that the new policy doesn't grant, whether an address granted them or a name, and leaves those that it
// grants. The end closes what somebody outside has by then.
func TestNetworkCloses(t *testing.T) {
	e := newWorld(t)
	const byName, byNumber = "one.test:5432", "93.184.215.2:5432"
	n := e.begin(e.policy(byName, byNumber))
	name, number := e.connect("one.test"), e.connect("93.184.215.2")
	for i, x := range []struct {
		hosts        []string
		name, number bool
	}{{[]string{byName, byNumber}, true, true}, {[]string{byName}, true, false}, {[]string{byNumber}, false, false}} {
		childtest.Must(t, n.Reload(uint32(i+2), e.policy(x.hosts...)))
		if name.open() != x.name || number.open() != x.number {
			t.Errorf("%v: open by name: %t, by number: %t", x.hosts, name.open(), number.open())
		}
	}
	if !e.waitEvent("closed 1 sockets") {
		t.Errorf("no event among %+v", e.emitted)
	}
	outside := e.connect("93.184.215.2")
	childtest.Must(t, cgroup.MoveTo(outside.cmd.Process.Pid, os.Getpid()))
	if !outside.open() {
		t.Error("it's closed before the end")
	}
	n.End()
	if outside.open() {
		t.Error("what somebody outside has stays open")
	}
}

// connection is a program's that has connected to a port 5432 in the session, and waits for its end.
type connection struct {
	cmd *exec.Cmd
	out *os.File
}

func (w *world) connect(host string) *connection {
	w.t.Helper()
	r, stdout, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("/bin/bash", "-c", `exec 3<>/dev/tcp/$0/5432; echo -n open; read -r -u 3`, host)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: w.group.FD()}
	err = cmd.Start()
	_ = stdout.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = r.Close()
	})
	if said, err := io.ReadAll(io.LimitReader(r, 4)); string(said) != "open" || err != nil {
		w.t.Fatalf("%s: it says %q: %v", host, said, err)
	}
	return &connection{cmd, r}
}

// open says whether it still is: when it ends so does the program.
func (c *connection) open() bool {
	_ = c.out.SetReadDeadline(time.Now().Add(time.Second / 2))
	_, err := c.out.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// What is refused just before the end, while the session's policies are still looked for, is told before it has ended.
func TestNetworkEndsWhileItLooks(t *testing.T) {
	e := newWorld(t)
	c := e.policy("one.test")
	n, err := Load()
	childtest.Must(t, err)
	looks, found, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	who := denials.Source{Policies: func() (map[uint32]*policy.Compiled, error) {
		close(looks)
		<-found
		return map[uint32]*policy.Compiled{api.FirstGeneration: c}, nil
	}}
	if _, err := n.Begin(who, denials.Config{Session: 7, Self: os.Getpid(), Policy: c, Events: e.events}, e.site()); err != nil {
		t.Fatal(err)
	}
	e.expect("http://93.184.215.2:5432/", "onnect")
	<-looks
	go func() {
		n.End()
		_, _ = e.events.Close()
		close(ended)
	}()
	select {
	case <-ended: // it hasn't waited
	case <-time.After(100 * time.Millisecond):
	}
	close(found)
	<-ended
	if len(e.emitted) == 0 || e.emitted[0].Target != "tcp://93.184.215.2:5432" {
		t.Errorf("told %+v", e.emitted)
	}
}

// Egress that dies is started again, by the policy in force; one that takes no other policy is ended for it.
func TestNetworkEgress(t *testing.T) {
	e := newWorld(t)
	n := e.begin(e.policy("one.test"))
	defer n.End()
	pid := func() int { // of the child that is egress
		for _, child := range proc.Children()(os.Getpid()) {
			if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); strings.HasPrefix(string(text), "toolguardd\x00egress\x00") {
				return child
			}
		}
		t.Fatal("there's no egress")
		return 0
	}
	childtest.Must(t, n.Reload(2, e.policy("two.test")))
	first := pid()
	childtest.Must(t, syscall.Kill(first, syscall.SIGKILL))
	if !e.waitEvent("egress died") {
		t.Error("its death isn't told")
	}
	e.expect("http://two.test/", "^hello")
	e.expect("http://one.test/", nowhere)
	stopped := pid()
	childtest.Must(t, syscall.Kill(stopped, syscall.SIGSTOP))
	childtest.Must(t, n.Reload(3, e.policy("one.test")))
	if pid() == stopped || stopped == first {
		t.Error("what takes no other policy goes on")
	}
	e.expect("http://one.test/", "^hello")
	e.expect("http://two.test/", nowhere)
}

// Another process takes over what one has held, by the policy in force and with the same certificate authority.
func TestNetworkResumed(t *testing.T) {
	e := newWorld(t)
	c := e.policy("one.test")
	former := e.begin(c)
	ca, err := egress.NewAuthority()
	childtest.Must(t, err)
	kept, err := json.Marshal(ca)
	childtest.Must(t, err)
	childtest.Must(t, former.net.kernel.SaveState(kept))
	e.expect("http://one.test/", "^hello")
	former.End() // as if it were gone
	e.expect("http://one.test/", "Could not resolve|onnect")
	who := denials.Source{Policies: func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: c}, nil
	}}
	n, err := Resume(who, denials.Config{Session: 7, Self: os.Getpid(), Policy: c, Events: e.events}, 1, e.site())
	childtest.Must(t, err)
	if got := string(n.net.egress.Ready().Authority); got != string(kept) {
		t.Errorf("the authority is %q", got)
	}
	e.expect("http://one.test/", "^hello")
	e.expect("http://two.test/", nowhere)
	n.End()
	if !e.waitEvent("denial dns://two.test dns_denied") {
		t.Errorf("no event among %+v", e.emitted)
	}
	if left, _ := filepath.Glob(e.group.Path() + "/*/"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The network namespace of a process is found by its pidfd.
func TestNetworkOf(t *testing.T) {
	e := newWorld(t)
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil { // where this thread is
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	childtest.Must(t, err)
	defer unix.Close(fd)
	found, err := NamespaceOf(fd)
	childtest.Must(t, err)
	defer found.Close()
	var want, got unix.Stat_t
	childtest.Must(t, unix.Fstat(int(e.namespace.Fd()), &want))
	if err := unix.Fstat(int(found.Fd()), &got); err != nil || got.Ino != want.Ino {
		t.Errorf("%d, want %d, %v", got.Ino, want.Ino, err)
	}
}
