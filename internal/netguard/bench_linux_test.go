package netguard

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// What a start costs: loading the programs, which can be done beside all else, and putting them on the cgroup.
func BenchmarkBegin(b *testing.B) {
	needRoot(b)
	c := compile(b, policy.Deny, tcp("127.1.0.0/16", 8001), tcp("a.test", 443))
	var load, begin, image []time.Duration
	for b.Loop() {
		b.StopTimer()
		g := prepare(b, c)
		g.Close()
		b.StartTimer()
		t0 := time.Now()
		s, err := Load()
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		img, err := NewImage(c, 1)
		if err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		if err := s.Begin(1, int(g.group.Fd()), img, Egress{}); err != nil {
			b.Fatal(err)
		}
		load, image, begin = append(load, t1.Sub(t0)), append(image, t2.Sub(t1)), append(begin, time.Since(t2))
		s.Close()
	}
	b.ReportMetric(micros(load), "µs/load")
	b.ReportMetric(micros(image), "µs/image")
	b.ReportMetric(micros(begin), "µs/begin")
}

func micros(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 1000
}

// What the programs add to a connection on the loopback device, in rounds with and without them, one after the other.
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
			var bare, held []time.Duration
			for b.Loop() {
				for _, x := range []struct {
					in   *guarded
					list *[]time.Duration
				}{{nil, &bare}, {g, &held}} {
					d, err := strconv.Atoi(run(b, x.in, "connect often", "127.1.0.1:8001", "2000"))
					if err != nil {
						b.Fatal(err)
					}
					*x.list = append(*x.list, time.Duration(d))
				}
			}
			b.ReportMetric(micros(bare), "µs/bare")
			b.ReportMetric(micros(held), "µs/held")
			b.ReportMetric(100*(micros(held)/micros(bare)-1), "%added")
		})
	}
}

// What each program takes of a connection on the loopback device, and how often it runs in it, as the kernel counts it: that asks for
// the time twice, which is in there.
func BenchmarkPrograms(b *testing.B) {
	needRoot(b)
	server(b, "127.1.0.1:8001")
	g := prepare(b, compile(b, policy.Deny, tcp("127.1.0.0/16", 8001)))
	g.start()
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		b.Fatal(err)
	}
	defer counting.Close()
	const often = 2000
	for b.Loop() {
		run(b, g, "connect often", "127.1.0.1:8001", strconv.Itoa(often))
	}
	for name, p := range g.programs {
		stats, err := p.Stats()
		if err != nil {
			b.Fatal(err)
		}
		if n := float64(b.N * often); stats.RunCount > 0 {
			b.ReportMetric(float64(stats.Runtime.Nanoseconds())/n, "ns/"+name)
			b.ReportMetric(float64(stats.RunCount)/n, "runs/"+name)
		}
	}
}
