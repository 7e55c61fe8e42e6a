package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

var (
	rules  = []int{10, 1000, 10000}
	depths = []int{3, 6, 10}
)

// decisions runs internal/loader's benchmark of decisions.
func decisions(out io.Writer) error {
	const times = 5
	text, err := output("go", "test", "-run", "^$", "-bench", "^BenchmarkMatch$/^rules=/^depth=(3|6|10)$", "-benchtime", "20x",
		"-count", fmt.Sprint(times), "./internal/loader")
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	took := map[string][]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var r, d, n int
		var ns float64
		if _, err := fmt.Sscanf(lines.Text(), "BenchmarkMatch/rules=%d/depth=%d-%d %d %f ns/decision", &r, &d, new(int), &n, &ns); err == nil {
			key := cell(r, d)
			took[key] = append(took[key], ns)
		}
	}
	if len(took) == 0 {
		return fmt.Errorf("%w: this kernel rejects the programs, or the user isn't root", errNotHere)
	}
	fmt.Fprint(out, `The time of one decision about an open in this machine's kernel, in nanoseconds: the walk up to the root, and down through the policy,
five of whose rules are patterns. The minimum of five times.

| rules | 3 folders deep | 6 | 10 |
|---|---|---|---|
`)
	for _, r := range rules {
		fmt.Fprintf(out, "| %d |", r)
		for _, d := range depths {
			all := took[cell(r, d)]
			slices.Sort(all)
			fmt.Fprintf(out, " %.0f |", all[0])
		}
		fmt.Fprintln(out)
	}
	return opens(out)
}

// opens runs internal/loader's benchmark of decisions compared with Landlock.
func opens(out io.Writer) error {
	text, err := output("go", "test", "-v", "-run", "^$", "-bench", "^BenchmarkOpen$", "-benchtime", "300x", "./internal/loader")
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var decided, free, gone, landlock float64
		if _, err := fmt.Sscanf(lines.Text(), "BenchmarkOpen-%d %d %f ns/decided %f ns/free %f ns/gone_there %f ns/landlock",
			new(int), new(int), &decided, &free, &gone, &landlock); err != nil {
			continue
		}
		fmt.Fprint(out, `
The time to open, read and close a file 6 folders deep on this machine, in nanoseconds: the medians of threads that took turns. This
kernel doesn't load LSM programs, so a program of another type decides about each open, at the system call's exit. The cost of calling it, which all
three system calls have, is higher than for an LSM program. Landlock enforces the same rules, in two domains, as in a session of toolguard.

| | median | beyond unconfined | over unconfined |
|---|---|---|---|
`)
		for _, row := range []struct {
			name string
			ns   float64
		}{{"unconfined", free}, {"a call without a decision", gone}, {"a call with a decision", decided}, {"Landlock", landlock}} {
			fmt.Fprintf(out, "| %s | %.0f | %.0f | %.2f× |\n", row.name, row.ns, row.ns-free, row.ns/free)
		}
		return nil
	}
	if strings.Contains(text, "--- SKIP") {
		return fmt.Errorf("%w: Landlock isn't in this kernel", errNotHere)
	}
	return fmt.Errorf("can't parse the output of the benchmark of opens: %s", text)
}

func cell(rules, depth int) string { return fmt.Sprintf("%d/%d", rules, depth) }
