package main

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// idle is the number of idle sessions.
const idle = 100

// unconfined measures unconfined processes, and toolguardd: on a machine without toolguard, with it, and with many sessions.
func unconfined(s *scene) error {
	workers := make([]*worker, 2)
	defer func() { endAll(workers) }()
	var err error
	for i := range workers {
		if workers[i], err = s.worker("unguarded", ""); err != nil {
			return err
		}
	}
	var first time.Duration
	t := times{opens: func(where string) error {
		times, err := turns(workers, []order{{"open", 400, s.file}}, 60)
		if err != nil {
			return err
		}
		one, another := times[0][0][0], times[1][0][0]
		if first == 0 {
			first = one
		}
		fmt.Printf("| %s | %.3f× | %.3f× |\n", where, ratio(one, first), ratio(another, first))
		return nil
	}}
	fmt.Print(`
### What runs beside, without a guard

Two processes open, read and close a file: the least of 60 times. How far the two are apart is how far these numbers may be off. "A program
that does nothing" is an LSM's where files are opened, so this is what one of anybody's takes there at least; toolguardd has that
and another one where they are closed.

| on the machine | one | another |
|---|---|---|
`)
	if err := t.opens("no toolguard"); err != nil {
		return err
	}
	if err := withEmptyProgram(func() error { return t.opens("a program that does nothing") }); err != nil {
		return err
	}
	if err := t.daemon(s); err != nil {
		return err
	}
	t.print()
	return nil
}

// withEmptyProgram measures while an empty LSM program is attached to the hook for opening files.
func withEmptyProgram(measure func() error) error {
	nothing, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac, AttachTo: "file_open", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer nothing.Close()
	there, err := link.AttachLSM(link.LSMOptions{Program: nothing})
	if err != nil {
		return err
	}
	return errors.Join(measure(), there.Close())
}

// times are measurements of toolguardd.
type times struct {
	opens                         func(where string) error
	program, first, again, taking time.Duration
	loaded, empty, full           use
}

// daemon starts toolguardd repeatedly, and kills it while sessions run.
func (t *times) daemon(s *scene) (err error) {
	policy, err := s.policy(10)
	if err != nil {
		return err
	}
	if t.program, err = s.program(); err != nil {
		return err
	}
	d := &daemon{s: s}
	defer func() { d.end(syscall.SIGTERM) }()
	if t.first, err = d.start(); err != nil {
		return err
	}
	if err := t.opens("toolguardd, no session"); err != nil {
		return err
	}
	if t.loaded, err = d.uses(0); err != nil {
		return err
	}
	d.end(syscall.SIGKILL)
	if t.again, err = d.start(); err != nil {
		return err
	}
	if t.empty, err = d.uses(0); err != nil {
		return err
	}
	sessions, err := d.begin(policy, idle)
	defer func() { stop(sessions) }()
	if err != nil {
		return err
	}
	if err := t.opens(fmt.Sprintf("toolguardd, %d idle sessions", idle)); err != nil {
		return err
	}
	if t.full, err = d.uses(2 * time.Minute); err != nil { // Go collects garbage then at the latest
		return err
	}
	d.end(syscall.SIGKILL)
	if t.taking, err = d.start(); err != nil {
		return err
	}
	if n, err := d.sessions(); n != idle {
		return fmt.Errorf("%d of %d sessions were taken over: %w", n, idle, err)
	}
	return nil
}

// program is the time to start a program of the same size.
func (s *scene) program() (best time.Duration, err error) {
	best = time.Hour
	for range 20 {
		began := time.Now()
		if err = exec.Command(s.toolguard, "version").Run(); err != nil {
			break
		}
		best = min(best, time.Since(began))
	}
	return best, err
}

func (t *times) print() {
	fmt.Printf(`
### toolguardd

How long it takes until it answers, against starting a program that says its version and ends.

| start | 10⁹ instructions | over a program |
|---|---|---|
| the programs aren't in the kernel yet | %.1f | %.0f× |
| after kill -9, without sessions | %.2f | %.1f× |
| after kill -9, with %d sessions, which it takes over | %.2f | %.1f× |

`, t.first.Seconds(), ratio(t.first, t.program), t.again.Seconds(), ratio(t.again, t.program), idle, t.taking.Seconds(), ratio(t.taking, t.program))
	fmt.Printf(`What it takes of the machine, in the last column two minutes after the sessions have begun:

| | has loaded the programs | found them there | with %d idle sessions | for each of these |
|---|---|---|---|---|
| resident | %.1f MiB | %.1f MiB | %.1f MiB | %.1f KiB |
| tables and rings in the kernel | %.1f MiB | %.1f MiB | %.1f MiB | %.1f KiB |
| processor | %.1f %% | %.1f %% | %.1f %% | |

A ring's pages are counted in both where toolguardd has read from it. The kernel keeps another %d bytes for each guarded thread.
`, idle, mib(t.loaded.resident), mib(t.empty.resident), mib(t.full.resident), each(t.empty.resident, t.full.resident),
		mib(t.loaded.maps), mib(t.empty.maps), mib(t.full.maps), each(t.empty.maps, t.full.maps), t.loaded.cpu, t.empty.cpu, t.full.cpu,
		t.full.label)
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

func each(none, many int) float64 { return float64(many-none) / idle / 1024 }
