package main

import (
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// inTime measures unconfined processes in wall-clock time, in turn without toolguardd and with it. The spread between turns of one kind is
// the error of measurement.
func inTime(s *scene) error {
	policy, err := s.policy(10)
	if err != nil {
		return err
	}
	w, err := s.worker("unconfined", "")
	if err != nil {
		return err
	}
	defer func() { _ = w.end() }()
	rows := [3]took{}
	measure := func(row int) error {
		times, err := turns([]*worker{w}, []order{{"open", 4000, s.file}}, 40)
		if err == nil {
			rows[row] = append(rows[row], times[0][0][20])
		}
		return err
	}
	for range 6 {
		if err := measure(0); err != nil {
			return err
		}
		if err := withEmptyProgram(func() error { return measure(1) }); err != nil {
			return err
		}
		if err := s.withSessions(policy, func() error { return measure(2) }); err != nil {
			return err
		}
	}
	fmt.Printf(`
### Unconfined processes, in time

The same on two emulated processors, by this machine's clock, six times in turn without toolguard and with it. Each time is the median of 40
measurements; the table has the minimum, median and maximum of the six, in µs.

| on the machine | minimum | median | maximum |
|---|---|---|---|
`)
	for i, where := range []string{"no toolguard", "an empty program", fmt.Sprintf("toolguardd, %d idle sessions", idle)} {
		slices.Sort(rows[i])
		fmt.Printf("| %s |", where)
		for _, t := range []time.Duration{rows[i][0], (rows[i][2] + rows[i][3]) / 2, rows[i][5]} {
			fmt.Printf(" %.2f |", t.Seconds()*1e6)
		}
		fmt.Println()
	}
	return nil
}

// withSessions measures alongside idle sessions, and leaves the machine without toolguard.
func (s *scene) withSessions(policy string, measure func() error) error {
	d := &daemon{s: s}
	if _, err := d.start(); err != nil {
		return err
	}
	sessions, err := d.begin(policy, idle)
	if err == nil {
		time.Sleep(time.Second) // until they have started
		err = measure()
	}
	stop(sessions)
	d.end(syscall.SIGTERM)
	if text, unload := exec.Command(s.toolguardd, "unload").CombinedOutput(); err == nil && unload != nil {
		err = fmt.Errorf("unload: %w: %s", unload, text)
	}
	return err
}
