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
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/proc"
)

// TestMain has this program be its toolguardd's egress, too, and its sessions' processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "egress" {
		fd, err := strconv.Atoi(os.Args[2])
		if err := cmp.Or(err, egress.Serve(fd)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	childtest.Main(m, func(o netOrder) (uint64, error) { return o.obey() })
}

// netOrder is what a session's process does.
type netOrder struct {
	Allowed string // an address that it may connect to, which it makes sure of
	Threads int    // so many are refused as fast as they can, until there's no more input; 0: one, by a new port, for each byte of it
}

// refusedAt is an address that no policy here grants. Nobody has it.
const refusedAt = "192.0.2.1"

// obey returns how often the process was refused.
func (o netOrder) obey() (uint64, error) {
	c, err := net.Dial("tcp", o.Allowed)
	if err != nil {
		return 0, err
	}
	_ = c.Close()
	if o.Threads == 0 {
		return o.oneByOne()
	}
	var stop atomic.Bool
	var refused atomic.Uint64
	list := make([]error, o.Threads)
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			runtime.LockOSThread()
			f, err := newFlooder(i)
			for err == nil && !stop.Load() {
				err = f.thousand()
			}
			refused.Add(f.refused)
			list[i] = err
		})
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
	wg.Wait()
	return refused.Load(), errors.Join(append(list, err)...)
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
	return f.refused, err
}

// flooder is a thread that is refused.
type flooder struct {
	how, fd int
	to      unix.RawSockaddrInet4
	refused uint64
}

// newFlooder connects to the same port always, or to another one each time, or sends datagrams.
func newFlooder(i int) (*flooder, error) {
	f := &flooder{how: i % 3, to: unix.RawSockaddrInet4{Family: unix.AF_INET, Port: 1, Addr: netip.MustParseAddr(refusedAt).As4()}}
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

// refuse fails unless it's refused.
func (f *flooder) connectDenied() error {
	var errno unix.Errno
	switch f.how {
	case 1:
		if f.to.Port++; f.to.Port == 53<<8 { // in the order of bytes of the network it is 53: DNS is led to egress
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
		return fmt.Errorf("port %d: %w, not refused", f.to.Port, errno)
	}
	f.refused++
	return nil
}

// flooded is what came of a flood.
type flooded struct {
	refused, told, counted uint64
	perSecond              float64
	before, most           int64  // bytes of memory
	alone, beside          delays // of another user's denials, before the flood and while it goes on
}

// delays are how long after each refusal it was in the audit, and with who listens.
type delays struct{ kept, heard []time.Duration }

func (d *delays) String() string {
	return fmt.Sprintf("%d of another user's were kept after %v, at most %v, and heard after %v, at most %v",
		len(d.kept), middle(d.kept), slices.Max(d.kept), middle(d.heard), slices.Max(d.heard))
}

func middle(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

func (f *flooded) String() string {
	return fmt.Sprintf("%.0f refusals a second: %d, of which %d were told and %d counted; toolguardd took %d MiB, %d before; "+
		"before it %v; meanwhile %v",
		f.perSecond, f.refused, f.told, f.counted, f.most>>20, f.before>>20, &f.alone, &f.beside)
}

// A session's network is refused to it as fast as several threads can ask, by the kernel's programs: as many as they count themselves
// the kernel has counted, and the audit tells or counts. toolguardd, which is this process, stays small, and what another user's session
// is refused meanwhile is kept and heard before the flood ends. The programs that hold files, which not every kernel takes, have
// test/daemon.TestStorm.
func TestNetworkFlood(t *testing.T) { t.Log(flood(t)) }

// BenchmarkNetworkFlood tells what TestNetworkFlood found.
func BenchmarkNetworkFlood(b *testing.B) {
	for b.Loop() {
		f := flood(b)
		b.ReportMetric(f.perSecond, "refusals/s")
		b.ReportMetric(float64(f.told), "told")
		b.ReportMetric(float64(f.counted), "counted")
		b.ReportMetric(float64(f.most)/(1<<20), "MiB")
		for name, list := range map[string][]time.Duration{
			"kept-alone": f.alone.kept, "kept": f.beside.kept, "heard-alone": f.alone.heard, "heard": f.beside.heard,
		} {
			b.ReportMetric(middle(list).Seconds()*1000, "ms-"+name)
			b.ReportMetric(slices.Max(list).Seconds()*1000, "ms-"+name+"-worst")
		}
	}
}

func flood(t testing.TB) *flooded {
	t.Helper()
	d, c := served(t, DefaultLimits)
	folder := kept(t, d)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	childtest.Must(t, err)
	defer l.Close()
	allowed := l.Addr().String()
	stream, err := c.Follow(api.Events + "?format=ocsf&kind=denial&session=0000000000000002")
	childtest.Must(t, err)
	defer stream.Close()
	onDisk, heard := make(chan time.Duration, 1), make(chan time.Duration, 1)
	d.cfg.Audit.Observe(func(events []event.Event) {
		for i := range events {
			if e := &events[i]; e.Kind == event.Denial && e.Owner == "1001" {
				onDisk <- time.Since(e.Time)
			}
		}
	})
	go func() { // it ends with the stream
		for lines := bufio.NewScanner(stream.Body()); lines.Scan(); {
			if e, err := event.Parse(lines.Bytes()); err == nil && e.Kind == event.Denial {
				heard <- time.Since(e.Time)
			}
		}
	}()
	f := &flooded{before: memory(t)}
	loud, quiet := d.guard(t, 1, 1000, netOrder{Allowed: allowed, Threads: 4}), d.guard(t, 2, 1001, netOrder{Allowed: allowed, Threads: 0})
	quiet.start()
	another := func(in *delays) {
		if _, err := quiet.in.Write(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		in.kept, in.heard = append(in.kept, soon(t, onDisk)), append(in.heard, soon(t, heard))
		f.most = max(f.most, memory(t))
	}
	for began := time.Now(); len(f.alone.kept) < 3 || time.Since(began) < *floodFor; {
		another(&f.alone)
	}
	began := time.Now()
	loud.start()
	for len(f.beside.kept) < 3 || time.Since(began) < *floodFor {
		another(&f.beside)
	}
	n := quiet.end()
	f.refused = loud.end()
	f.perSecond = float64(f.refused) / time.Since(began).Seconds()
	f.most = max(f.most, memory(t))
	if _, err := d.cfg.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	told := map[string]uint64{}
	for _, e := range lines(t, folder) {
		switch {
		case e.Kind == event.Denial:
			told[e.Owner] += max(1, e.Count)
		case e.Kind == event.Gap && e.Extra["exact"] == "false":
			t.Errorf("a gap that doesn't know: %+v", e)
		case e.Kind == event.Gap && e.Owner != "1001":
			f.counted += e.Count
		}
	}
	if f.told = told["1000"]; f.told == 0 || f.told+f.counted != f.refused {
		t.Errorf("%v: %d are missing", f, f.refused-f.told-f.counted)
	}
	if n != uint64(len(f.alone.kept)+len(f.beside.kept)) || told["1001"] != n {
		t.Errorf("%v: it was refused %d times, of which %d were told", f, n, told["1001"])
	}
	if f.most > f.before+100<<20 {
		t.Errorf("%v", f)
	}
	if r, err := audit.Verify(folder, "", func(int64, int64) {}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	return f
}

// soon is what comes by a channel.
func soon(t testing.TB, from chan time.Duration) time.Duration {
	t.Helper()
	select {
	case d := <-from:
		return d
	case <-time.After(time.Minute):
		t.Fatal("another user's denial hasn't come for a minute")
		return 0
	}
}

// memory is how much this process takes, in bytes.
func memory(t testing.TB) int64 {
	t.Helper()
	n, err := resident()
	childtest.Must(t, err)
	return n
}

// guardedNet is a session whose network alone is held, as this kernel may not take the other programs.
type guardedNet struct {
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
	source := &policy.Source{Name: "flood", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}
	c, err := policy.Compile(source, hostfs.Machine{})
	childtest.Must(t, err)
	return c
}

// guard makes a session that may connect to one address, and a user's process in it.
func (d *Daemon) guard(t testing.TB, number uint64, uid int, o netOrder) *guardedNet {
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
	g := &guardedNet{session: d.newSession(r, client), t: t, cmd: childtest.Command(t, uid, o)}
	saved(t, d, r, held(c))
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
func (g *guardedNet) start() {
	g.t.Helper()
	g.cmd.Stdout = &g.out
	g.cmd.SysProcAttr.UseCgroupFD, g.cmd.SysProcAttr.CgroupFD = true, g.group.Load().FD()
	var err error
	if g.in, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// end ends it as toolguardd does, and is how often it says that it was refused, which the kernel must have counted.
func (g *guardedNet) end() uint64 {
	g.t.Helper()
	_ = g.in.Close()
	if err := g.cmd.Wait(); err != nil {
		g.t.Fatal(err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(g.out.String()), 10, 64)
	if err != nil {
		g.t.Fatal(err)
	}
	if counts := g.endNetwork(); counts.Denied != n || n == 0 {
		g.t.Errorf("it was refused %d times, and the kernel counted %+v", n, counts)
	}
	_, _ = g.events.Close()
	return n
}
