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

// idle is the number of idle sessions. One user may have few more, by the default limit of lines.
const idle = 50

// unconfined measures unconfined processes, and toolguardd: on a machine without toolguard, with it, and with many sessions.
func unconfined(s *scene) error {
	workers := make([]*worker, 2)
	defer func() { endAll(workers) }()
	var err error
	for i := range workers {
		if workers[i], err = s.worker("unconfined", ""); err != nil {
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
### Unconfined processes

Two processes open, read and close a file: the minimum of 60 times. The difference between the two is the measurement error. "An empty
program" is an LSM program for opening files, so this is the minimum cost of any such program; toolguardd has one there
and another one where files are closed.

| on the machine | one | another |
|---|---|---|
`)
	if err := t.opens("no toolguard"); err != nil {
		return err
	}
	if err := withEmptyProgram(func() error { return t.opens("an empty program") }); err != nil {
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

The time until it answers, compared with starting a program that prints its version.

| start | 10⁹ instructions | over a program |
|---|---|---|
| the BPF programs aren't loaded yet | %.1f | %.0f× |
| after kill -9, without sessions | %.2f | %.1f× |
| after kill -9, with %d sessions that it takes over | %.2f | %.1f× |

`, t.first.Seconds(), ratio(t.first, t.program), t.again.Seconds(), ratio(t.again, t.program), idle, t.taking.Seconds(), ratio(t.taking, t.program))
	fmt.Printf(`Its use of resources, with sessions two minutes after they have begun:

| | after loading the programs | with loaded programs | with %d idle sessions | for each session |
|---|---|---|---|---|
| resident | %.1f MiB | %.1f MiB | %.1f MiB | %.1f KiB |
| BPF maps | %.1f MiB | %.1f MiB | %.1f MiB | %.1f KiB |
| processor | %.1f %% | %.1f %% | %.1f %% | |

Pages of a ring buffer count in both rows once toolguardd has read them. The kernel stores another %d bytes for each confined thread.
`, idle, mib(t.loaded.resident), mib(t.empty.resident), mib(t.full.resident), each(t.empty.resident, t.full.resident),
		mib(t.loaded.maps), mib(t.empty.maps), mib(t.full.maps), each(t.empty.maps, t.full.maps), t.loaded.cpu, t.empty.cpu, t.full.cpu,
		t.full.label)
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

func each(none, many int) float64 { return float64(many-none) / idle / 1024 }
