// Command benchtable turns the JSON of hyperfine into the tables of docs/BENCHMARKS.md: medians, and their ratios to the
// bare command and to toolguard.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// result is what hyperfine says of one command; times are seconds.
type result struct {
	Command          string
	Median, Min, Max float64
	User, System     float64
}

func main() {
	machine := flag.String("machine", "", "what it ran on")
	versions := flag.String("versions", "", "what ran")
	runs := flag.Int("runs", 0, "how often each was started")
	flag.Parse()
	fmt.Printf(`# What it costs to start a command

Made by `+"`make bench`"+` (scripts/bench has the exact commands): each was started %d times, in one run on one machine. Compare
the ratios, not the milliseconds. "All built-in" is toolguard without a policy file. "The least" is what the program takes
to do nothing but start; it confines next to nothing.

- Machine: %s
- Versions: %s
`, *runs, *machine, *versions)
	for _, file := range flag.Args() {
		if err := table(file); err != nil {
			fmt.Fprintln(os.Stderr, "benchtable:", err)
			os.Exit(1)
		}
	}
}

func table(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out struct{ Results []result }
	if err := json.Unmarshal(text, &out); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(out.Results) < 2 {
		return fmt.Errorf("%s: only %d results", file, len(out.Results))
	}
	bare, own := out.Results[0], out.Results[1]
	fmt.Printf("\n## As %s\n\n| command | median | least | beyond bare | over toolguard |\n|---|---|---|---|---|\n",
		strings.TrimSuffix(filepath.Base(file), ".json"))
	for _, r := range out.Results {
		fmt.Printf("| %s | %.2f ms | %.2f ms | %.2f ms | %.2f× |\n",
			r.Command, r.Median*1e3, r.Min*1e3, (r.Median-bare.Median)*1e3, r.Median/own.Median)
	}
	return nil
}
