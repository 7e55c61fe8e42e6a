package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

const module = "github.com/toolguard/toolguard/"

// place is where tests ran (the host, the race detector, a guest), and how they ended. Tests are named package.Test/row.
type place struct {
	name     string
	passed   map[string]bool
	failed   map[string]string  // what each said first
	reasons  map[string]string  // why each other test was skipped
	packages map[string]*result // by name
}

type result struct {
	seconds float64
	open    map[string]bool // tests that have begun and not ended
	ended   bool
	failed  bool
}

// testEvent is one line of test2json.
type testEvent struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

func newPlace(name string) *place {
	return &place{
		name: name, passed: map[string]bool{}, failed: map[string]string{}, reasons: map[string]string{}, packages: map[string]*result{},
	}
}

// read adds a file of JSON lines. Other lines, which a program may have printed by itself, are passed over. A test that was skipped in
// one file and ran in another one counts as it ended there.
func (p *place) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	output := map[string][]string{} // the output of each test that runs
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		var e testEvent
		if json.Unmarshal(line, &e) == nil && e.Package != "" {
			p.add(e, output)
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
}

func (p *place) add(e testEvent, output map[string][]string) {
	name := strings.TrimPrefix(e.Package, module)
	if _, after, ok := strings.Cut(name, ":"); ok { // as the guests name them
		name = after
	}
	pkg := p.packages[name]
	if pkg == nil {
		pkg = &result{open: map[string]bool{}}
		p.packages[name] = pkg
	}
	if e.Test == "" {
		switch e.Action {
		case "pass", "fail", "skip":
			pkg.seconds, pkg.ended, pkg.failed = pkg.seconds+e.Elapsed, true, pkg.failed || e.Action == "fail"
		case "start":
			pkg.ended = false
		}
		return
	}
	test := name + "." + e.Test
	switch e.Action {
	case "run":
		pkg.open[test] = true
		return
	case "output":
		output[test] = append(output[test], e.Output)
		return
	case "pass":
		p.passed[test] = true
	case "fail":
		p.failed[test] = firstFailure(output[test])
	case "skip":
		p.reasons[test] = reason(output[test])
	default:
		return
	}
	if e.Action != "skip" || p.passed[test] || p.failed[test] != "" {
		delete(p.reasons, test)
	}
	delete(pkg.open, test)
	delete(output, test)
}

// cutOff are the tests that did not end, and the packages that failed although none of their tests did.
func (p *place) cutOff() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p.packages)) {
		pkg := p.packages[name]
		names = append(names, slices.Sorted(maps.Keys(pkg.open))...)
		explained := len(pkg.open) > 0
		for test := range p.failed {
			explained = explained || strings.HasPrefix(test, name+".")
		}
		if !explained && (pkg.failed || !pkg.ended) {
			names = append(names, name)
		}
	}
	return names
}

// firstFailure is the first line of a failed test's output that says what failed: one of a Go file, or of a testscript's.
func firstFailure(output []string) string {
	for _, line := range output {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "FAIL: ") {
			return line
		}
	}
	return reason(output)
}

// reason is what a test printed when it was skipped: the last line of its output that testing did not write by itself.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok = strings.Cut(text, ": "); ok {
				return text
			}
		}
		return line
	}
	return "no reason given"
}

// printSkipped prints the tests that were skipped for a reason, a package a line. The pattern has the names of each level:
// it may select more rows than were skipped.
func (p *place) printSkipped(w io.Writer, why string) {
	levels := map[string][][]string{}
	for test, r := range p.reasons {
		if !strings.Contains(r, why) {
			continue
		}
		pkg, test, _ := strings.Cut(test, ".") // packages have no dots
		for i, name := range strings.Split(test, "/") {
			if i == len(levels[pkg]) {
				levels[pkg] = append(levels[pkg], nil)
			}
			if !slices.Contains(levels[pkg][i], name) {
				levels[pkg][i] = append(levels[pkg][i], name)
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(levels)) {
		var pattern []string
		for _, names := range levels[pkg] {
			slices.Sort(names)
			pattern = append(pattern, "^("+strings.Join(names, "|")+")$")
		}
		fmt.Fprintln(w, pkg, strings.Join(pattern, "/"))
	}
}
