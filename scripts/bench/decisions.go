package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

var (
	rules  = []int{10, 1000, 10000}
	depths = []int{3, 6, 10}
)

// decisions has the kernel's programs decide, by internal/loader's benchmark.
func decisions(out io.Writer, toolguard string) error {
	const times = 5
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkMatch$/^rules=/^depth=(3|6|10)$", "-benchtime", "20x",
		"-count", fmt.Sprint(times), "./internal/loader")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	took := map[string][]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r, d, n int
		var ns float64
		if _, err := fmt.Sscanf(lines.Text(), "BenchmarkMatch/rules=%d/depth=%d-%d %d %f ns/decision", &r, &d, new(int), &n, &ns); err == nil {
			key := cell(r, d)
			took[key] = append(took[key], ns)
		}
	}
	if len(took) == 0 {
		return fmt.Errorf("%w: this kernel doesn't take the programs, or who asked isn't root", errNotHere)
	}
	fmt.Fprint(out, `What one decision about an open takes in this machine's kernel, in nanoseconds: the walk up to the root, and down through the policy,
five of whose rules are patterns. The least of five times.

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
	return landlock(out, toolguard)
}

// landlock measures what Landlock adds to an open, to hold a decision against.
func landlock(out io.Writer, toolguard string) error {
	dir, err := os.MkdirTemp("", "toolguard-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildGuest(dir); err != nil {
		return err
	}
	built, err := filepath.Abs(filepath.Dir(toolguard))
	if err != nil {
		return err
	}
	table, err := output(dir+"/guest", built, "landlock")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `
What it takes to open, read and close a file 6 folders deep on this machine, in nanoseconds; "beyond" is of the least:

%s
`, table)
	return nil
}

func cell(rules, depth int) string { return fmt.Sprintf("%d/%d", rules, depth) }
