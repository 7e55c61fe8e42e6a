package cgroupsock

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// races is how long two threads race: without the lock on a socket's permission, one second shows the error.
const races = 3 * time.Second

// Two threads that use one socket at once can't mix two permitted addresses: half of one and half of the other would be a third, which isn't
// permitted.
func TestRace(t *testing.T) {
	needRoot(t)
	childtest.TwoProcessors(t)
	server(t, "[fd00::1]:8001")
	g := begin(t, tcp("a.test", 8001))
	for _, at := range []string{"[fd01::1]:8001", "[fd00::3]:8001"} { // [fd00::1]:8001 is half of each
		must(t, g.kernel.Permit(1, "udp", netip.MustParseAddrPort(at), time.Now().Add(time.Hour)))
	}
	order := []string{"[fd00::1]:8001", "[fd01::1]:8001", "[fd00::3]:8001"}
	if sent, tried := race(t, nil, time.Second/10, order...); sent == 0 || sent != tried {
		t.Errorf("outside: %d sent of %d", sent, tried)
	}
	before := g.denied()
	sent, tried := race(t, g, races, order...)
	if n := g.denied() - before; sent != 0 || n != uint64(tried) {
		t.Errorf("inside: %d sent of %d, %d denied", sent, tried, n)
	}
}

func race(t *testing.T, g *testSession, long time.Duration, places ...string) (sent, tried int) {
	t.Helper()
	output := run(t, g, append([]string{"race", long.String()}, places...)...)
	if _, err := fmt.Sscanf(output, "%d of %d", &sent, &tried); err != nil {
		t.Fatalf("%q: %v", output, err)
	}
	return sent, tried
}

// pinToProcessor gives this thread a processor of its own, so that both run at the same time.
func pinToProcessor(processor int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(processor)
	_ = unix.SchedSetaffinity(0, &set)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// tryRace returns the number of datagrams that reached the first address, to which a socket is connected, while another thread sends to the others.
func tryRace(args []string) string {
	fd, to := socket(args[1], unix.SOCK_DGRAM, 0)
	ok(unix.Connect(fd, to))
	stop, ended := make(chan bool), make(chan bool)
	pinToProcessor(1)
	go func() {
		defer close(ended)
		pinToProcessor(0)
		for {
			for _, a := range args[2:] { // which aren't routed and so never answered
				_, to := at(a)
				if err := unix.Sendto(fd, []byte("hello"), 0, to); err != unix.ENETUNREACH {
					panic(err)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	sent, tried := 0, 0
	for end := time.Now().Add(got(time.ParseDuration(args[0]))); time.Now().Before(end); tried++ {
		switch err := unix.Send(fd, []byte("hello"), 0); err {
		case nil:
			sent++
		case unix.EPERM:
		default:
			ok(err)
		}
	}
	close(stop)
	<-ended
	return fmt.Sprintf("%d of %d", sent, tried)
}
