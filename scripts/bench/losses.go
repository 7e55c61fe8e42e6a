package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// startWhy is why a backend of toolguard starts more slowly than programs that do less.
var startWhy = map[string]string{
	byLandlock: "toolguard reads and checks the policy, opens every granted path for a rule of Landlock, installs its system call filter, and remains as the " +
		"command's parent. landrun opens a few paths and executes the command in its own place.",
	byBwrap: "toolguard does all that it does under `landlock`. It also searches the workspace for files that `protect` and `secrets` name, asks bubblewrap " +
		"for its version, runs it once to see that its mounts deny, starts it again for the session, and verifies each mount there.",
	byFirejail: "toolguard does the same with firejail, each of whose starts takes longer than one of bubblewrap.",
}

// losses prints where a backend takes longer than a peer, beyond the noise, and why.
func losses(out io.Writer, confiners []confiner, all []workload, results [][]result) {
	const significant = 1.1 // with as many runs as the start has
	fewRuns := significant / fastest(results[1:])
	fmt.Fprintf(out, `
## Where toolguard is slower

Only differences beyond the noise are here: at least %.1f× at the start, and at least %.1f× elsewhere, where there are fewer runs. There the fastest
program took %.2f× of the bare time, and no program makes a command faster.

`, significant, fewRuns, fastest(results[1:]))
	for i, with := range confiners {
		for j, w := range all {
			if startWhy[with.name] == "" { // not toolguard
				continue
			}
			var than []string
			why, least := startWhy[with.name], significant
			if j > 0 {
				why, least = "This is the start.", fewRuns
			}
			for k, peer := range confiners {
				r, p := results[j][i], results[j][k]
				if k == 0 || startWhy[peer.name] != "" || r.median == 0 || p.median == 0 || over(r, p) < least {
					continue
				}
				than = append(than, fmt.Sprintf("%.1f× %s", over(r, p), peer.name))
				if start := results[0][i].median - results[0][k].median; r.median-p.median > 2*start {
					why = "The start explains less than half of it; the rest isn't explained yet."
				}
			}
			if than != nil {
				fmt.Fprintf(out, "- %s, %s: %s. %s\n", with.name, w.name, strings.Join(than, ", "), why)
			}
		}
	}
}

// fastest is the lowest ratio of a time to that of the bare command, which can't be lower than 1 except by noise.
func fastest(results [][]result) float64 {
	lowest := 1.0
	for _, of := range results {
		for _, r := range of {
			if r.median > 0 {
				lowest = min(lowest, over(r, of[0]))
			}
		}
	}
	return lowest
}

// over is how much longer one took than another.
func over(r, than result) float64 { return float64(r.median) / float64(than.median) }

func show(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
}
