// Command bench measures what toolguard costs: to start a command, bare, under toolguard and under its peers; to use the network
// (scripts/bench/network); to decide, in this machine's kernel; and what runs under it, in a virtual machine (scripts/bench/guest). Compared
// programs run in turn, in a random order, so that other load affects all of them equally. It prints docs/BENCHMARKS.md; with
// -peers it compares the backends with other programs at everyday work, and prints docs/BENCHMARKS-PEERS.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	runs := flag.Int("runs", 300, "how often each command is started")
	toolguard := flag.String("toolguard", "bin/toolguard", "the program")
	series := flag.String("vm", "6.12", "the kernel of the virtual machine; \"\": leave it out")
	peers := flag.Bool("peers", false, "measure the backends and other programs at everyday work instead; prints docs/BENCHMARKS-PEERS.md")
	opened := flag.Bool("open", false, "open, read and close each file of the current folder instead: a workload of -peers")
	flag.Parse()
	var err error
	switch {
	case *opened:
		err = openAll()
	case *peers:
		err = compare(os.Stdout, *toolguard)
	default:
		err = bench(os.Stdout, *toolguard, *runs, *series)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(out io.Writer, toolguard string, runs int, series string) error {
	if err := starts(out, toolguard, runs); err != nil {
		return err
	}
	for _, part := range []struct {
		title, takes string
		run          func(io.Writer) error
	}{
		{"To use the network", "(5 minutes)", func(out io.Writer) error { return network(out, toolguard) }},
		{"To decide", "(2 minutes)", decisions},
		{"To run under it", "(10 minutes to an hour)", func(out io.Writer) error { return guest(out, series) }},
	} {
		fmt.Fprintf(os.Stderr, "bench: %s %s\n", strings.ToLower(part.title), part.takes)
		fmt.Fprintf(out, "\n## %s\n\n", part.title)
		if err := part.run(out); errors.Is(err, errNotHere) {
			fmt.Fprintf(os.Stderr, "bench: left out: %s: %v\n", part.title, err)
			fmt.Fprintf(out, "Left out: %v.\n", err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
	}
	return nil
}

// errNotHere: a part can't run on this machine, and is left out. Every other error ends the run.
var errNotHere = errors.New("it can't be measured here")
