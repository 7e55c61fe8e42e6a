// Command mutate runs mutation tests: it changes single conditions of packages, and counts how many of these mutants tests kill:
//
//	mutate [-workers N] [PACKAGE|FILE.go]...
//
// A mutant negates a comparison or moves its boundary, exchanges "and" and "or" or plus and minus, or negates another condition. A
// package is compiled once with all its mutants, and reads from a file which one is active (active.go.txt). Each mutant is tried
// with the tests that reach it, the fastest first: those of its package, and those of the packages in checkedBy.
//
// A test that needs more than 3 seconds of processor time is left out. The output names these tests and the mutants that survive,
// and ends with a table. The exit status is 1 if the mutation score of a package that decides is below 85 %.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// minScore is the percentage of a deciding package's mutants that tests must kill.
const minScore = 85

// deciding are the packages that decide, and whose decisions tests in their process can check. Each must reach minScore.
var deciding = []string{
	"internal/policy", "internal/policy/envname", "internal/policy/explain", "internal/policy/fspath", "internal/policy/netname",
	"internal/policy/policyfile", "internal/policy/nearest", "internal/policy/tomlformat", "internal/policy/tomltext",
	"internal/loader/image", "internal/seccomp", "internal/landlock",
	"internal/egress", "internal/egress/dns", "internal/audit", "internal/policy/toolset", "internal/tool/catalog",
	"internal/tool/visibility", "internal/tool/gate", "internal/tool/approval",
}

// integrated are packages that tests of the real programs check (test/run, test/net, test/daemon), whose processes have no mutants.
// Their score is printed, and no minimum is required.
var integrated = []string{
	"internal/policy/hostfs", "internal/loader/bpffs", "internal/loader/cgroupsock", "internal/egress/control", "internal/egress/process",
	"internal/egress/relay", "internal/session/backend", "internal/session/denials", "internal/session/launch", "internal/session/network",
	"internal/daemon/peer", "internal/proc",
}

// checkedBy names the other packages whose tests check a package's decisions: those that it was split from, or that need a kernel.
var checkedBy = map[string][]string{
	"internal/policy/envname":  {"internal/policy", "internal/policy/explain"},
	"internal/policy/explain":  {"internal/policy", "internal/policy/policyfile"},
	"internal/policy/fspath":   {"internal/policy"},
	"internal/policy/hostfs":   {"internal/policy/policyfile"},
	"internal/policy/netname":  {"internal/policy"},
	"internal/policy/tomltext": {"internal/policy/explain", "internal/policy/policyfile"},
	"internal/policy/toolset":  {"internal/policy/policyfile", "internal/tool/visibility"},
	"internal/loader/bpffs":    {"internal/loader", "internal/loader/cgroupsock"},
	"internal/loader/image":    {"internal/loader"}, // TestAgree compares the BPF programs' decisions with the policy's
	"internal/egress/dns":      {"internal/egress"},
	"internal/egress/relay":    {"internal/egress"},
	"internal/session/launch":  {"internal/session"},
	"internal/session/network": {"internal/session"},
	"internal/daemon/peer":     {"internal/daemon"},
}

func main() {
	workers := flag.Int("workers", runtime.NumCPU(), "how many mutants are tried at a time")
	flag.Parse()
	args := flag.Args()
	if len(args) == 0 {
		args = slices.Concat(deciding, integrated)
	}
	if err := run(os.Stdout, *workers, args); err != nil {
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(1)
	}
}

// target is a package, and the files of it to mutate: all if there are none.
type target struct {
	folder string
	files  []string
}

// targets groups arguments by package.
func targets(args []string) (list []*target) {
	for _, arg := range args {
		folder, file := filepath.Clean(arg), ""
		if strings.HasSuffix(arg, ".go") {
			folder, file = filepath.Dir(folder), filepath.Base(folder)
		}
		i := slices.IndexFunc(list, func(t *target) bool { return t.folder == folder })
		if i < 0 {
			i, list = len(list), append(list, &target{folder: folder})
		}
		if file != "" {
			list[i].files = append(list[i].files, file)
		}
	}
	return list
}

func run(w io.Writer, workers int, args []string) error {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%8s%8s%8s%8s\n", "mutants", "killed", "percent", "seconds")
	var low []string
	for _, t := range targets(args) {
		start := time.Now()
		all, err := try(w, t, workers)
		if err != nil {
			return fmt.Errorf("%s: %w", t.folder, err)
		}
		killed := 0
		for _, m := range all {
			switch {
			case m.killed:
				killed++
			case !m.reached:
				fmt.Fprintf(w, "%s  (no test reaches it)\n", m)
			default:
				fmt.Fprintln(w, m)
			}
		}
		percent := 100 * float64(killed) / float64(max(len(all), 1))
		if percent < minScore && !slices.Contains(integrated, t.folder) {
			low = append(low, t.folder)
		}
		name := strings.Join(append([]string{t.folder}, t.files...), " ")
		fmt.Fprintf(&table, "%8d%8d%8.1f%8.0f  %s\n", len(all), killed, percent, time.Since(start).Seconds(), name)
	}
	if _, err := io.WriteString(w, table.String()); err != nil {
		return err
	}
	if low != nil {
		return fmt.Errorf("the mutation score is below %d %% in %s: test what the listed mutants change, or delete conditions that decide nothing",
			minScore, strings.Join(low, ", "))
	}
	return nil
}

// try tries all mutants of a package.
func try(w io.Writer, t *target, workers int) ([]*mutant, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// Tests' children read there, as other users, too.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	pkg, err := load(t.folder)
	if err != nil {
		return nil, err
	}
	all, overlay, err := pkg.mutate(t.files)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("has no condition to change")
	}
	if err := writeOverlay(dir, overlay); err != nil {
		return nil, err
	}
	var suites []*suite
	for _, folder := range append([]string{t.folder}, checkedBy[t.folder]...) {
		s, err := build(dir, folder)
		if err != nil {
			return nil, err
		}
		if err := s.measure(w, all); err != nil {
			return nil, fmt.Errorf("tests of %s: %w", folder, err)
		}
		suites = append(suites, s)
	}
	return all, tryAll(suites, all, workers)
}
