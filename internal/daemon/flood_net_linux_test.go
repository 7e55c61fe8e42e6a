//go:build !cgo

package daemon

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/childtest"
	egress "github.com/toolguard/toolguard/internal/egress/process"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// TestMain runs this program as its toolguardd's egress process and as the processes of its sessions.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "egress" {
		fd, err := strconv.Atoi(os.Args[2])
		if err := cmp.Or(err, egress.Serve(fd)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	childtest.Main(m, func(o netOrder) (uint64, error) { return o.run() })
}

// netOrder is what a session's process does.
type netOrder struct {
	Allowed string // an address to which it connects first
	Threads int    // the number of threads that cause denials until the input ends; 0: one denial, of a new port, for each byte of input
}

// deniedAddress is an address that no policy here grants (TEST-NET-1, RFC 5737).
const deniedAddress = "192.0.2.1"

// run returns the number of denials.
func (o netOrder) run() (uint64, error) {
	c, err := net.Dial("tcp", o.Allowed)
	if err != nil {
		return 0, err
	}
	_ = c.Close()
	if o.Threads == 0 {
		return o.oneByOne()
	}
	var stop atomic.Bool
	var denied atomic.Uint64
	list := make([]error, o.Threads)
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			runtime.LockOSThread()
			f, err := newFlooder(i)
			for err == nil && !stop.Load() {
				err = f.thousand()
			}
			denied.Add(f.denied)
			list[i] = err
		})
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
	wg.Wait()
	return denied.Load(), errors.Join(append(list, err)...)
}

func (o netOrder) oneByOne() (uint64, error) {
	f, err := newFlooder(1)
	for in := bufio.NewReader(os.Stdin); err == nil; {
		if _, err = in.ReadByte(); err == nil {
			err = f.connectDenied()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return f.denied, err
}

// flooder is a thread that causes denials.
type flooder struct {
	how, fd int
	to      unix.RawSockaddrInet4
	denied  uint64
}

// newFlooder returns a flooder that connects to one port, or to another one each time, or sends datagrams.
func newFlooder(i int) (*flooder, error) {
	f := &flooder{how: i % 3, to: unix.RawSockaddrInet4{Family: unix.AF_INET, Port: 1, Addr: netip.MustParseAddr(deniedAddress).As4()}}
	kind := unix.SOCK_STREAM
	if f.how == 2 {
		kind = unix.SOCK_DGRAM
	}
	var err error
	f.fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	return f, err
}

func (f *flooder) thousand() (err error) {
	for i := 0; i < 1000 && err == nil; i++ {
		err = f.connectDenied()
	}
	return err
}

// connectDenied returns an error unless the operation is denied.
func (f *flooder) connectDenied() error {
	var errno unix.Errno
	switch f.how {
	case 1:
		if f.to.Port++; f.to.Port == 53<<8 { // port 53 in network byte order: DNS is redirected to egress
			f.to.Port++
		}
		fallthrough
	case 0:
		_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, uintptr(f.fd), uintptr(unsafe.Pointer(&f.to)), unsafe.Sizeof(f.to))
	case 2:
		_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(f.fd), uintptr(unsafe.Pointer(&f.to)), 1, unix.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(&f.to)), unsafe.Sizeof(f.to))
	}
	if errno != unix.EACCES {
		return fmt.Errorf("port %d: %w, not denied", f.to.Port, errno)
	}
	f.denied++
	return nil
}

// flooded is the result of a flood.
type flooded struct {
	denied, reported, counted uint64
	perSecond                 float64
	before, most              int64  // bytes of memory
	alone, meanwhile          delays // of another user's denials, before and during the flood
}

// delays are the times from each denial until it was recorded, and until a subscriber received it.
type delays struct{ recorded, received []time.Duration }

func (d *delays) String() string {
	return fmt.Sprintf("%d of another user's were recorded after %v, at most %v, and received after %v, at most %v",
		len(d.recorded), median(d.recorded), slices.Max(d.recorded), median(d.received), slices.Max(d.received))
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

func (f *flooded) String() string {
	return fmt.Sprintf("%.0f denials a second: %d, of which %d were reported and %d counted; toolguardd used %d MiB, %d before; "+
		"before it %v; meanwhile %v",
		f.perSecond, f.denied, f.reported, f.counted, f.most>>20, f.before>>20, &f.alone, &f.meanwhile)
}

// Several threads of a session cause network denials as fast as they can. The kernel counts as many as the threads do, and the audit has all
// of them, reported or counted. The memory of toolguardd, which is this process, stays bounded, and another user's denials are recorded and
// received during the flood. test/daemon.TestStorm does the same with files, for which not every kernel has the programs.
func TestNetworkFlood(t *testing.T) { t.Log(flood(t)) }

// BenchmarkNetworkFlood reports the results of TestNetworkFlood.
func BenchmarkNetworkFlood(b *testing.B) {
	for b.Loop() {
		f := flood(b)
		b.ReportMetric(f.perSecond, "denials/s")
		b.ReportMetric(float64(f.reported), "reported")
		b.ReportMetric(float64(f.counted), "counted")
		b.ReportMetric(float64(f.most)/(1<<20), "MiB")
		for name, list := range map[string][]time.Duration{
			"recorded-alone": f.alone.recorded, "recorded": f.meanwhile.recorded, "received-alone": f.alone.received, "received": f.meanwhile.received,
		} {
			b.ReportMetric(median(list).Seconds()*1000, "ms-"+name)
			b.ReportMetric(slices.Max(list).Seconds()*1000, "ms-"+name+"-worst")
		}
	}
}

func flood(t testing.TB) *flooded {
	t.Helper()
	d, c := served(t, DefaultLimits)
	folder := recordEvents(t, d)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	childtest.Must(t, err)
	defer l.Close()
	allowed := l.Addr().String()
	stream, err := c.Follow(api.Events + "?format=ocsf&kind=denial&session=0000000000000002")
	childtest.Must(t, err)
	defer stream.Close()
	recorded, received := make(chan time.Duration, 1), make(chan time.Duration, 1)
	d.cfg.Audit.Observe(func(events []event.Event) {
		for i := range events {
			if e := &events[i]; e.Kind == event.Denial && e.Owner == "1001" {
				recorded <- time.Since(e.Time)
			}
		}
	})
	go func() { // it ends with the stream
		for lines := bufio.NewScanner(stream.Body()); lines.Scan(); {
			if e, err := event.Parse(lines.Bytes()); err == nil && e.Kind == event.Denial {
				received <- time.Since(e.Time)
			}
		}
	}()
	f := &flooded{before: memory(t)}
	loud, quiet := d.confineNet(t, 1, 1000, netOrder{Allowed: allowed, Threads: 4}), d.confineNet(t, 2, 1001, netOrder{Allowed: allowed, Threads: 0})
	quiet.start()
	denyQuiet := func(in *delays) {
		if _, err := quiet.in.Write(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		in.recorded, in.received = append(in.recorded, await(t, recorded)), append(in.received, await(t, received))
		f.most = max(f.most, memory(t))
	}
	for began := time.Now(); len(f.alone.recorded) < 3 || time.Since(began) < *floodFor; {
		denyQuiet(&f.alone)
	}
	began := time.Now()
	loud.start()
	for len(f.meanwhile.recorded) < 3 || time.Since(began) < *floodFor {
		denyQuiet(&f.meanwhile)
	}
	n := quiet.end()
	f.denied = loud.end()
	f.perSecond = float64(f.denied) / time.Since(began).Seconds()
	f.most = max(f.most, memory(t))
	if _, err := d.cfg.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	byOwner := map[string]uint64{}
	for _, e := range lines(t, folder) {
		switch {
		case e.Kind == event.Denial:
			byOwner[e.Owner] += max(1, e.Count)
		case e.Kind == event.Gap && e.Extra["exact"] == "false":
			t.Errorf("a gap without a number: %+v", e)
		case e.Kind == event.Gap && e.Owner != "1001":
			f.counted += e.Count
		}
	}
	if f.reported = byOwner["1000"]; f.reported == 0 || f.reported+f.counted != f.denied {
		t.Errorf("%v: %d are missing", f, f.denied-f.reported-f.counted)
	}
	if n != uint64(len(f.alone.recorded)+len(f.meanwhile.recorded)) || byOwner["1001"] != n {
		t.Errorf("%v: the other user had %d denials, of which %d were recorded", f, n, byOwner["1001"])
	}
	if f.most > f.before+100<<20 {
		t.Errorf("%v", f)
	}
	if r, err := audit.Verify(folder, "", func(int64, int64) {}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	return f
}

// await receives from a channel.
func await(t testing.TB, from chan time.Duration) time.Duration {
	t.Helper()
	select {
	case d := <-from:
		return d
	case <-time.After(time.Minute):
		t.Fatal("another user's denial didn't arrive within a minute")
		return 0
	}
}

// memory is the resident memory of this process, in bytes.
func memory(t testing.TB) int64 {
	t.Helper()
	n, err := resident()
	childtest.Must(t, err)
	return n
}

// confinedNet is a session whose network rules alone are enforced, because this kernel may not take the other programs.
type confinedNet struct {
	*session
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out strings.Builder
}

// allows is a policy that grants one address.
func allows(t testing.TB, address string) *policy.Compiled {
	t.Helper()
	to := netip.MustParseAddrPort(address)
	rule := policy.NetRule{Host: to.Addr().String(), Port: int(to.Port()), Allow: true}
	layer := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{rule}}
	layer.Defaults[policy.Net] = policy.Deny
	return nettest.Policy(t, layer)
}

// confineNet makes a session that may connect to one address, with a user's process in it.
func (d *Daemon) confineNet(t testing.TB, number uint64, uid int, o netOrder) *confinedNet {
	t.Helper()
	facts := cgroup.Probe()
	if facts.Base == "" {
		t.Skip("needs cgroup v2: ", facts.Why)
	}
	c := allows(t, o.Allowed)
	client, err := proc.Open(os.Getpid(), 0)
	childtest.Must(t, err)
	t.Cleanup(client.Close)
	r := &record{
		Number: number, Generation: 1, Sizes: map[uint32]int{1: 1},
		Net:  &networkRecord{Upstream: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}},
		Info: api.Session{ID: fmt.Sprintf("%016x", number), UID: uid, PID: os.Getpid(), State: api.Running},
	}
	g := &confinedNet{session: d.newSession(r, client), t: t, cmd: childtest.Command(t, uid, o)}
	saved(t, d, r, policiesOf(c))
	group, err := managed.New(fmt.Sprintf("test-%d-%d", os.Getpid(), number), policy.Limits{}, facts)
	childtest.Must(t, err)
	g.group.Store(group)
	t.Cleanup(func() {
		g.endNetwork()
		g.endGroup()
	})
	childtest.Must(t, g.beginNetwork(c))
	return g
}

// start starts its process.
func (g *confinedNet) start() {
	g.t.Helper()
	g.cmd.Stdout = &g.out
	g.cmd.SysProcAttr.UseCgroupFD, g.cmd.SysProcAttr.CgroupFD = true, g.group.Load().FD()
	var err error
	if g.in, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	childtest.Must(g.t, err)
}

// end ends the session as toolguardd does. It returns the number of denials that its process counted, which the kernel must have counted, too.
func (g *confinedNet) end() uint64 {
	g.t.Helper()
	_ = g.in.Close()
	childtest.Must(g.t, g.cmd.Wait())
	n, err := strconv.ParseUint(strings.TrimSpace(g.out.String()), 10, 64)
	childtest.Must(g.t, err)
	if counts := g.endNetwork(); counts.Denied != n || n == 0 {
		g.t.Errorf("the process counted %d denials, and the kernel %+v", n, counts)
	}
	_, _ = g.events.Close()
	return n
}
