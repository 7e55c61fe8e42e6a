package cgroupsock

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

func micros(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 1000
}

// What the programs add to a connection on the loopback device: of two children that connect by turns, on one processor, one is in a session.
func BenchmarkConnect(b *testing.B) {
	needRoot(b)
	server(b, "127.1.0.1:8001")
	for _, n := range []int{1, 1000, 10000} {
		rules := []policy.NetRule{tcp("127.1.0.0/16", 8001)}
		for i := range n - 1 {
			rules = append(rules, tcp(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(), 8001))
		}
		b.Run(fmt.Sprint("rules=", n), func(b *testing.B) {
			g := prepare(b, compile(b, policy.Deny, rules...))
			g.start()
			var bare, confined, added []time.Duration
			for b.Loop() {
				took := connectByTurns(b, g)
				bare, confined = append(bare, took[0]), append(confined, took[1])
				added = append(added, took[1]-took[0])
			}
			b.ReportMetric(micros(bare), "µs/bare")
			b.ReportMetric(micros(confined), "µs/confined")
			b.ReportMetric(100*micros(added)/micros(bare), "%added")
		})
	}
}

// often is how many connections connectByTurns measures of each child.
const often = 2000

// connectByTurns measures connecting outside of any session, and in one.
func connectByTurns(b testing.TB, g *testSession) (took [2]time.Duration) {
	b.Helper()
	var turns [2]struct{ mine, other *os.File } // a byte in mine is the turn, which passes on through other
	for i := range turns {
		r, w, err := os.Pipe()
		must(b, err)
		defer r.Close()
		defer w.Close()
		turns[i].mine, turns[1-i].other = r, w
	}
	if _, err := turns[1].other.Write(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	var done sync.WaitGroup
	for i, in := range []*testSession{nil, g} {
		done.Go(func() {
			d, err := strconv.Atoi(runAs(b, in, 0, []*os.File{turns[i].mine, turns[i].other}, "on one processor", "connect often", "127.1.0.1:8001", strconv.Itoa(often)))
			if err != nil {
				b.Error(err)
			}
			took[i] = time.Duration(d)
		})
	}
	done.Wait()
	return took
}
