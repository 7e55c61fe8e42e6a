package loader

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
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
	must(b, os.MkdirAll(file, 0o755))
	if strings.Count(file, "/") > depth { // the folder of tests is deeper than that
		file = "/usr/bin/env"
	}
	list := []string{file + " read", dir + "/component none", "/**/.env none", "/**/*.key none", "/**/.git/hooks none"}
	for i := len(list); i < rules; i++ {
		list = append(list, fmt.Sprintf("%s/folder%d/beneath/%d read", dir, i%100, i))
	}
	must(b, a.follow(compile(b, list...)))
	fd := opened(b, file).fd
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

// BenchmarkOpen measures an open, read and close on threads that take turns: one that is free, one about each of whose opens the matcher is
// asked, and one under Landlock by the same rules. "gone_there" is the way alone to where it's asked, at the end of every system call, which is
// longer than the one to an LSM program.
func BenchmarkOpen(b *testing.B) {
	const opens = 1000
	a := newAsker(b)
	names := []string{"src/internal/file"}
	for i := range 9 {
		names = append(names, fmt.Sprintf("folder%d/file", i))
	}
	dir := scene(b, names...)
	file, rules := filepath.Join(dir, names[0]), []string{dir + " read"}
	for _, name := range names[1:] {
		rules = append(rules, filepath.Join(dir, filepath.Dir(name))+" read")
	}
	c := compile(b, rules...)
	plan := a.prepare(b, c, file)
	rows := []struct {
		name string
		do   func(func() error) error // on a thread of its own
	}{
		{"free", func(f func() error) error { return f() }},
		{"gone_there", func(f func() error) error { return a.asked(0, opens, f) }},
		{"decided", func(f func() error) error { return a.asked(1, opens, f) }},
		{"landlock", func(f func() error) error { return errors.Join(restrict(plan), f()) }},
	}
	took := make([][]time.Duration, len(rows))
	for b.Loop() {
		for _, i := range rand.Perm(len(rows)) {
			err := childtest.Thread(func() error {
				return rows[i].do(func() error {
					t, err := a.open(file, opens)
					took[i] = append(took[i], t)
					return err
				})
			})
			if err != nil {
				b.Fatalf("%s: %v", rows[i].name, err)
			}
		}
	}
	for i, row := range rows {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/opens, "ns/"+row.name)
	}
	b.ReportMetric(0, "ns/op")
}

// prepare has the matcher and Landlock know the rules, and the former the file.
func (a *asker) prepare(b *testing.B, c *policy.Compiled, file string) *landlock.Plan {
	abi, _, err := landlock.Probe()
	if err != nil {
		b.Skip(err)
	}
	plan, err := landlock.NewPlan(c, abi)
	must(b, errors.Join(err, a.follow(c)))
	must(b, plan.Prepare())
	b.Cleanup(plan.Close)
	fd := opened(b, file).fd
	b.Cleanup(func() { _ = unix.Close(fd) }) // keeps the file in the kernel's cache
	if caps, err := a.ask(fd, policy.Read, true); err != nil || caps != policy.Read {
		b.Fatal(caps, err)
	}
	return plan
}

// asked does f, in which this thread opens the file so many times, and has the matcher decide about each of them where rounds isn't 0.
func (a *asker) asked(rounds, opens uint32, f func() error) error {
	at, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_exit", Program: a.opened})
	if err != nil {
		return err
	}
	defer at.Close()
	q := &a.work.Q
	q.Rounds, q.Thread, q.Opened, a.work.M.Caps = rounds, uint32(unix.Gettid()), 0, 0
	err = f()
	q.Thread = 0
	if err == nil && (q.Opened < opens || a.work.M.Caps != rounds*uint32(policy.Read)) {
		err = fmt.Errorf("%d of %d opens were seen, and %v given", q.Opened, opens, policy.Caps(a.work.M.Caps))
	}
	return err
}

// restrict puts the calling thread into as many domains as a session's command is in.
func restrict(plan *landlock.Plan) error {
	if err := plan.Apply(); err != nil {
		return err
	}
	inner, flags, err := plan.InnerArgs()
	if err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(inner), uintptr(flags), 0); e != 0 {
		return e
	}
	return nil
}

// open opens, reads and closes a file, always under the same number, which it has the program know.
func (a *asker) open(file string, times int) (time.Duration, error) {
	name, err := unix.BytePtrFromString(file)
	if err != nil {
		return 0, err
	}
	free, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	a.work.Q.Fd = uint32(free)
	if err := unix.Close(free); err != nil {
		return 0, err
	}
	var buf [1]byte
	start := time.Now()
	for range times {
		fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, ^uintptr(0), uintptr(unsafe.Pointer(name)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e != 0 {
			return 0, e
		}
		_, _, _ = unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&buf)), 1)
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		if fd < uintptr(free) { // a finalizer has closed it meanwhile
			return a.open(file, times)
		}
	}
	return time.Since(start), nil
}
