package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// startWhy is why a backend starts more slowly than programs that do less, workWhy why commands run more slowly under it.
var startWhy, workWhy = map[string]string{
	byLandlock: "toolguard reads and checks the policy, opens every granted path for a rule of Landlock, installs its system call filter, and remains as the " +
		"command's parent. landrun opens a few paths and executes the command in its own place.",
	byBwrap: "toolguard does all that it does under `landlock`. It also searches the workspace for files that `protect` and `secrets` name, asks bubblewrap " +
		"for its version, runs it once to see that its mounts deny, starts it again for the session, and verifies each mount there.",
	byFirejail: "toolguard does all that it does under `bwrap`, and each start of firejail itself takes longer than one of bubblewrap. " +
		"toolguard starts it twice.",
}, map[string]string{
	byLandlock: "Landlock checks the path of each opened file up to the root, in each of toolguard's rulesets, and seccomp checks each system call.",
	byBwrap:    "Landlock checks the path of each opened file up to the root, in each of toolguard's rulesets, and seccomp checks each system call. bubblewrap alone uses neither.",
	byFirejail: "Landlock checks the path of each opened file up to the root, in each of toolguard's rulesets. firejail alone only checks system calls.",
}

// losses prints where a backend takes at least a tenth longer than a peer, and why.
func losses(out io.Writer, confiners []confiner, all []workload, results [][]result) {
	fmt.Fprint(out, "\n## Where toolguard is slower\n\nAt least a tenth slower than another program. Smaller differences aren't significant here.\n\n")
	for i, with := range confiners {
		for j, w := range all {
			if startWhy[with.name] == "" || over(results[j][i], results[j][0]) < 1.1 { // not toolguard, or as fast as bare
				continue
			}
			var than []string
			var start, work time.Duration
			for k, peer := range confiners {
				r, p := results[j][i], results[j][k]
				if k == 0 || startWhy[peer.name] != "" || r.median == 0 || p.median == 0 || over(r, p) < 1.1 {
					continue
				}
				than = append(than, fmt.Sprintf("%.1f× %s", over(r, p), peer.name))
				extra := results[0][i].median - results[0][k].median
				start, work = max(start, extra), max(work, r.median-p.median-extra)
			}
			if than == nil {
				continue
			}
			why := startWhy[with.name]
			if j > 0 {
				why = "This is the start."
			}
			if work > start {
				why = workWhy[with.name]
			}
			fmt.Fprintf(out, "- %s, %s: %s. %s\n", with.name, w.name, strings.Join(than, ", "), why)
		}
	}
}

// over is how much longer one took than another.
func over(r, than result) float64 { return float64(r.median) / float64(than.median) }

func show(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
}
