package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"
)

// worker is a shell, confined or not, that starts a process for each order: a process's placement in memory changes its speed by some
// percent, which so affects all workers equally.
type worker struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// worker starts a worker under a backend, with toolguard's further arguments; "" means unconfined.
func (s *scene) worker(name, backend string, args ...string) (*worker, error) {
	argv := []string{"sh", "-c", `while read -r order; do "$0" $order; done`, s.self}
	if backend != "" {
		args = append([]string{s.toolguard, "exec", "--backend", backend, "--daemon", "none", "--report", "never"}, args...)
		argv = append(append(args, "--"), argv...)
	}
	w := &worker{name: name, cmd: exec.Command(argv[0], argv[1:]...)}
	w.cmd.Dir, w.cmd.Stderr = s.workspace, os.Stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.out = in, bufio.NewReader(out)
	return w, w.cmd.Start()
}

// do executes an order, and returns the time of each operation.
func (w *worker) do(o order) (time.Duration, error) {
	var ns int64
	_, err := fmt.Fprintln(w.in, o.what, o.times, o.path)
	if err == nil {
		_, err = fmt.Fscanln(w.out, &ns)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", w.name, o.what, err)
	}
	return time.Duration(ns / int64(o.times)), nil
}

func (w *worker) end() error {
	_ = w.in.Close()
	return w.cmd.Wait()
}

func endAll(workers []*worker) {
	for _, w := range workers {
		_ = w.end()
	}
}

// took has the times of repeated operations, sorted: the least one had no interruption.
type took []time.Duration

// turns makes each worker execute each order in turn, in a random sequence, and returns the times by worker, then by order.
func turns(workers []*worker, orders []order, rounds int) ([][]took, error) {
	times := make([]took, len(workers)*len(orders))
	for range rounds {
		for _, i := range rand.Perm(len(times)) {
			t, err := workers[i/len(orders)].do(orders[i%len(orders)])
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], t)
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	return slices.Collect(slices.Chunk(times, len(orders))), nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
