package loader

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BenchmarkMatch measures one decision in the kernel, for an open: the walk up, and down through the policy.
func BenchmarkMatch(b *testing.B) {
	a := newAsker(b)
	for _, rules := range []int{10, 1000, 10000} {
		for _, depth := range []int{3, 6, 10, 20} {
			b.Run(fmt.Sprintf("rules=%d/depth=%d", rules, depth), func(b *testing.B) { a.bench(b, rules, depth) })
		}
	}
}

func (a *asker) bench(b *testing.B, rules, depth int) {
	dir := scene(b)
	file := dir
	for strings.Count(file, "/") < depth {
		file += "/component"
	}
	if err := os.MkdirAll(file, 0o755); err != nil {
		b.Fatal(err)
	}
	if strings.Count(file, "/") > depth { // the folder of tests is deeper than that
		file = "/usr/bin/env"
	}
	list := []string{file + " read", dir + "/component none", "/**/.env none", "/**/*.key none", "/**/.git/hooks none"}
	for i := len(list); i < rules; i++ {
		list = append(list, fmt.Sprintf("%s/folder%d/beneath/%d read", dir, i%100, i))
	}
	if err := a.follow(compile(b, list...)); err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	if caps, err := a.ask(fd, 1, true); err != nil || caps != 1 {
		b.Fatal(caps, err)
	}
	const rounds = 100000
	a.work.Q.Rounds = rounds
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		if _, err := a.prog.Run(&ebpf.RunOptions{}); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds())/rounds, "ns/decision")
	b.ReportMetric(0, "ns/op")
}
