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

// mostWait is far above the time that tests need.
const mostWait = time.Minute

// world is a network namespace other than this process's, with servers behind two names, and a session's cgroup.
type world struct {
	t         *testing.T
	group     *cgroup.Group
	namespace *os.File
	dns       netip.AddrPort
	events    *event.Queue

	mu      sync.Mutex
	emitted []event.Event
}

// Write collects an event.
func (w *world) Write(e *event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emitted = append(w.emitted, *e)
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
	childtest.NeedsRoot(t)
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
	w := &world{t: t}
	runtime.LockOSThread() // the thread ends with the test
	place, err := netns.New()
	childtest.Must(t, err)
	w.namespace = os.NewFile(uintptr(place), "net")
	childtest.Must(t, nettest.LocalAddresses("93.184.215.1", "93.184.215.2"))
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	childtest.Must(t, err)
	t.Cleanup(func() { _ = names.Close() })
	w.dns = names.LocalAddr().(*net.UDPAddr).AddrPort()
	go nettest.Names{"one.test": {"93.184.215.1"}, "two.test": {"93.184.215.2"}}.ServeUDP(names)
	for _, port := range []string{":80", ":5432"} {
		l, err := net.Listen("tcp", port)
		childtest.Must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go nettest.ServeWeb(l, nil)
	}
	w.group, err = cgroup.New(fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()), policy.Limits{}, facts)
	childtest.Must(t, err)
	t.Cleanup(func() {
		err := w.group.Remove()
		for end := time.Now().Add(mostWait); errors.Is(err, unix.EBUSY) && time.Now().Before(end); { // an ended process stays in the cgroup for a moment
			err = w.group.Remove()
		}
		if err != nil {
			t.Error(err)
		}
	})
	w.events = event.NewQueue(w)
	return w
}

// expect runs curl in the session.
func (w *world) expect(url, want string) {
	w.t.Helper()
	cmd := exec.Command("/usr/bin/curl", "-sS", "-m", "60", url)
	cmd.Env = []string{"no_proxy=*"}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: w.group.FD()}
	if out, _ := cmd.CombinedOutput(); !regexp.MustCompile(want).Match(out) {
		w.t.Errorf("%s: %q, want %s", url, out, want)
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

// config returns a session with a follower that finds the policies by find.
func (w *world) config(c *policy.Compiled, find func() (map[uint32]*policy.Compiled, error)) Config {
	fd, err := unix.Dup(int(w.namespace.Fd()))
	childtest.Must(w.t, err)
	f := denials.NewFollower(denials.Source{Policies: find}, denials.Config{Session: 7, Self: os.Getpid(), Policy: c, Events: w.events})
	return Config{
		Session: 7, ID: denials.SessionID(7), Policy: c, Group: w.group, Namespace: os.NewFile(uintptr(fd), "net"),
		Upstream: []netip.AddrPort{w.dns}, Denials: f,
	}
}

// first finds a session's first policy.
func first(c *policy.Compiled) func() (map[uint32]*policy.Compiled, error) {
	return func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: c}, nil
	}
}

func (w *world) begin(c *policy.Compiled) *Managed {
	w.t.Helper()
	n, err := Load()
	childtest.Must(w.t, err)
	if _, err := n.Begin(w.config(c, first(c))); err != nil {
		w.t.Fatal(err)
	}
	return n
}

const nowhere = "Could not resolve"

// A session's network is enforced in another network namespace, by one policy and then by another.
func TestNetworkElsewhere(t *testing.T) {
	w := newWorld(t)
	n := w.begin(w.policy("one.test"))
	w.expect("http://one.test/", "^hello GET http://one.test/")
	w.expect("http://two.test/", nowhere)
	w.expect("http://93.184.215.2:5432/", "ailed to connect|Couldn't connect")
	for i, x := range []struct {
		hosts            []string
		one, two, number string
	}{
		{[]string{"two.test", "93.184.215.2:5432"}, nowhere, "^hello", "^hello"},
		{nil, nowhere, nowhere, "onnect"},
		{[]string{"one.test", "two.test"}, "^hello", "^hello", "onnect"},
	} {
		childtest.Must(t, n.Reload(uint32(i+2), w.policy(x.hosts...)))
		w.expect("http://one.test/", x.one)
		w.expect("http://two.test/", x.two)
		w.expect("http://93.184.215.2:5432/", x.number)
	}
	childtest.Must(t, nettest.Loopback("93.184.215.1/32"))
	w.expect("http://one.test/", nowhere) // now an address of the machine
	w.expect("http://two.test/", "^hello")
	if c := n.End(); c.Denied == 0 {
		t.Errorf("%+v", c)
	}
	for _, want := range []string{"denial dns://two.test dns_denied", "denial tcp://93.184.215.2:5432 host_not_listed", "denial tcp://93.184.215.1:443 private_address"} {
		if !w.waitEvent(want) {
			t.Errorf("no event %q among %+v", want, w.emitted)
		}
	}
	w.expect("http://one.test/", "Could not resolve|onnect")
}

// A reload closes the connections that the new policy doesn't grant, by address or by name, and leaves the others open. The end closes
// sockets in processes outside the session.
func TestNetworkCloses(t *testing.T) {
	w := newWorld(t)
	const byName, byNumber = "one.test:5432", "93.184.215.2:5432"
	n := w.begin(w.policy(byName, byNumber))
	name, number := w.connect("one.test"), w.connect("93.184.215.2")
	for i, x := range []struct {
		hosts        []string
		name, number bool
	}{{[]string{byName, byNumber}, true, true}, {[]string{byName}, true, false}, {[]string{byNumber}, false, false}} {
		childtest.Must(t, n.Reload(uint32(i+2), w.policy(x.hosts...)))
		if name.open() != x.name || number.open() != x.number {
			t.Errorf("%v: open by name: %t, by number: %t", x.hosts, name.open(), number.open())
		}
	}
	if !w.waitEvent("closed 1 sockets") {
		t.Errorf("no event among %+v", w.emitted)
	}
	outside := w.connect("93.184.215.2")
	childtest.Must(t, cgroup.MoveTo(outside.cmd.Process.Pid, os.Getpid()))
	if !outside.open() {
		t.Error("it's closed before the end")
	}
	n.End()
	if outside.open() {
		t.Error("a socket of a process outside stays open")
	}
}

// connection is a connection to port 5432 of a program in the session, which waits for its end.
type connection struct {
	cmd *exec.Cmd
	out *os.File
}

func (w *world) connect(host string) *connection {
	w.t.Helper()
	r, stdout, err := os.Pipe()
	childtest.Must(w.t, err)
	cmd := exec.Command("/bin/bash", "-c", `exec 3<>/dev/tcp/$0/5432; echo -n open; read -r -u 3`, host)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: w.group.FD()}
	err = cmd.Start()
	_ = stdout.Close()
	childtest.Must(w.t, err)
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = r.Close()
	})
	if got, err := io.ReadAll(io.LimitReader(r, 4)); string(got) != "open" || err != nil {
		w.t.Fatalf("%s: %q: %v", host, got, err)
	}
	return &connection{cmd, r}
}

// open reports whether the connection is open: the program ends with it.
func (c *connection) open() bool {
	_ = c.out.SetReadDeadline(time.Now().Add(time.Second / 2))
	_, err := c.out.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// A denial just before the end is reported before End returns, also while the session's policies are still being loaded.
func TestEndDuringPolicyLoad(t *testing.T) {
	w := newWorld(t)
	c := w.policy("one.test")
	n, err := Load()
	childtest.Must(t, err)
	loading, found, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	cfg := w.config(c, func() (map[uint32]*policy.Compiled, error) {
		close(loading)
		<-found
		return first(c)()
	})
	if _, err := n.Begin(cfg); err != nil {
		t.Fatal(err)
	}
	w.expect("http://93.184.215.2:5432/", "onnect")
	<-loading
	go func() {
		n.End()
		_, _ = w.events.Close()
		close(ended)
	}()
	select {
	case <-ended: // End hasn't waited
	case <-time.After(100 * time.Millisecond):
	}
	close(found)
	<-ended
	if len(w.emitted) == 0 || w.emitted[0].Target != "tcp://93.184.215.2:5432" {
		t.Errorf("reported %+v", w.emitted)
	}
}

// Egress is restarted with the policy in force when it dies. It is killed when it doesn't accept a policy.
func TestNetworkEgress(t *testing.T) {
	w := newWorld(t)
	n := w.begin(w.policy("one.test"))
	defer n.End()
	pid := func() int { // of egress
		for _, child := range proc.Children()(os.Getpid()) {
			if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); strings.HasPrefix(string(text), "toolguardd\x00egress\x00") {
				return child
			}
		}
		t.Fatal("there's no egress")
		return 0
	}
	childtest.Must(t, n.Reload(2, w.policy("two.test")))
	former := pid()
	childtest.Must(t, syscall.Kill(former, syscall.SIGKILL))
	if !w.waitEvent("egress died") {
		t.Error("its death isn't reported")
	}
	w.expect("http://two.test/", "^hello")
	w.expect("http://one.test/", nowhere)
	stopped := pid()
	childtest.Must(t, syscall.Kill(stopped, syscall.SIGSTOP))
	childtest.Must(t, n.Reload(3, w.policy("one.test")))
	if pid() == stopped || stopped == former {
		t.Error("an egress that accepts no policy keeps running")
	}
	w.expect("http://one.test/", "^hello")
	w.expect("http://two.test/", nowhere)
}

// Another process takes over the network with the policy in force and the same certificate authority.
func TestNetworkResumed(t *testing.T) {
	w := newWorld(t)
	c := w.policy("one.test")
	former := w.begin(c)
	ca, err := egress.NewAuthority()
	childtest.Must(t, err)
	saved, err := json.Marshal(ca)
	childtest.Must(t, err)
	childtest.Must(t, former.net.kernel.SaveState(saved))
	w.expect("http://one.test/", "^hello")
	former.End() // as if its process had ended
	w.expect("http://one.test/", "Could not resolve|onnect")
	n, err := Resume(w.config(c, first(c)), api.FirstGeneration)
	childtest.Must(t, err)
	if got := string(n.net.egress.Ready().Authority); got != string(saved) {
		t.Errorf("the authority is %q", got)
	}
	w.expect("http://one.test/", "^hello")
	w.expect("http://two.test/", nowhere)
	n.End()
	if !w.waitEvent("denial dns://two.test dns_denied") {
		t.Errorf("no event among %+v", w.emitted)
	}
	if left, _ := filepath.Glob(w.group.Path() + "/*/"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The network namespace of a process is found by its pidfd.
func TestNetworkOf(t *testing.T) {
	w := newWorld(t)
	cmd := exec.Command("sleep", "1000")
	childtest.Must(t, cmd.Start()) // in this thread's namespace
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	childtest.Must(t, err)
	defer unix.Close(fd)
	found, err := NamespaceOf(fd)
	childtest.Must(t, err)
	defer found.Close()
	var want, got unix.Stat_t
	childtest.Must(t, unix.Fstat(int(w.namespace.Fd()), &want))
	if err := unix.Fstat(int(found.Fd()), &got); err != nil || got.Ino != want.Ino {
		t.Errorf("%d, want %d, %v", got.Ino, want.Ino, err)
	}
}
