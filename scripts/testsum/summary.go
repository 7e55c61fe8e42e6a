package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// timed is a phase or package with its seconds.
type timed struct {
	name    string
	seconds float64
}

// summarize prints the run's summary and returns why it is not good.
func summarize(w io.Writer, places []*place, missing []string, phases string) error {
	if phases != "" {
		list, err := readPhases(phases)
		if err != nil {
			return err
		}
		printTimes(w, "seconds by phase", list, 0)
	}
	var packages []timed
	reasons := map[string][]string{}
	passed, failed, skipped := 0, 0, 0
	var cut []string
	for _, p := range places {
		for name, pkg := range p.packages {
			packages = append(packages, timed{p.name + " " + name, pkg.seconds})
		}
		for test, why := range p.reasons {
			reasons[why] = append(reasons[why], p.name+" "+test)
		}
		passed, failed, skipped = passed+len(p.passed), failed+len(p.failed), skipped+len(p.reasons)
		for _, name := range p.cutOff() {
			cut = append(cut, p.name+" "+name)
		}
	}
	printTimes(w, "seconds by package (those above 1)", packages, 1)
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		tests := reasons[why]
		slices.Sort(tests)
		fmt.Fprintf(w, "skipped %4d  %s (%s)\n", len(tests), why, tests[0])
	}
	for _, p := range places {
		for _, test := range slices.Sorted(maps.Keys(p.failed)) {
			fmt.Fprintf(w, "failed: %s %s: %s\n", p.name, test, p.failed[test])
		}
	}
	for _, name := range cut {
		fmt.Fprintf(w, "did not end: %s\n", name)
	}
	for _, m := range missing {
		fmt.Fprintf(w, "missing: %s\n", m)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, failed+len(cut)+len(missing), skipped)
	switch {
	case passed == 0:
		return fmt.Errorf("no test ran")
	case failed+len(cut) > 0:
		return fmt.Errorf("%d tests failed, %d did not end", failed, len(cut))
	case len(missing) > 0:
		return fmt.Errorf("%d requirements of the list of tests that may not be skipped are not met", len(missing))
	}
	return nil
}

func printTimes(w io.Writer, title string, list []timed, least float64) {
	slices.SortFunc(list, func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.name, b.name))
	})
	fmt.Fprintln(w, title)
	for _, t := range list {
		if t.seconds >= least {
			fmt.Fprintf(w, "%8.1f  %s\n", t.seconds, t.name)
		}
	}
}

// readPhases reads lines of NAME SECONDS.
func readPhases(file string) (list []timed, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var t timed
		if _, err := fmt.Sscan(lines.Text(), &t.name, &t.seconds); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, lines.Text(), err)
		}
		list = append(list, t)
	}
	return list, lines.Err()
}
