package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const module = "github.com/toolguard/toolguard/"

// tally is how tests ended.
type tally struct {
	as       string // what every line begins with
	packages map[string]*result
	skips    []string // of whole suites, with the reason
	flaky    []string // packages that passed only the second time
	broken   bool     // a go test command failed, and not for a test that did
}

// result is how a package's tests ended. They are named as in "race: test/attacks.TestAttacks/ptrace".
type result struct {
	path                    string // to import it by
	passed, failed, skipped []string
	reasons                 []string // why each was skipped
	output                  map[string][]string
	broken                  bool // it failed
	died                    bool // and that not only by tests that did
}

// testEvent is one line of `go test -json`.
type testEvent struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// print writes lines at once: others write to the same place.
func (t *tally) print(format string, args ...any) {
	text := strings.TrimSuffix(fmt.Sprintf(format, args...), "\n")
	os.Stdout.WriteString(t.as + strings.ReplaceAll(text, "\n", "\n"+t.as) + "\n")
}

// follow runs one go test command and prints what a person wants to see of it: each package as it ends, and the output
// of what failed. It tells whether the command failed.
func (t *tally) follow(cmd *exec.Cmd, prefix string) (broken bool) {
	t.print("gotest: %s", strings.Join(cmd.Args, " "))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%sgotest: %v\n", t.as, err)
		return true
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e testEvent
		if json.Unmarshal(line, &e) != nil {
			t.print("%s", line)
			continue
		}
		t.take(e, prefix)
	}
	return cmd.Wait() != nil
}

func (t *tally) take(e testEvent, prefix string) {
	if e.Action == "build-output" {
		t.print("%s", e.Output)
	}
	if e.Package == "" {
		return
	}
	name := prefix + strings.TrimPrefix(e.Package, module)
	r := t.packages[name]
	if r == nil {
		r = &result{path: e.Package, output: make(map[string][]string)}
		t.packages[name] = r
	}
	if e.Test != "" {
		name += "." + e.Test
	}
	switch {
	case e.Action == "output":
		r.output[name] = append(r.output[name], e.Output)
		return
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		return
	case e.Test == "":
		t.end(name, r, e)
	case e.Action == "pass":
		r.passed = append(r.passed, name)
	case e.Action == "fail":
		r.failed = append(r.failed, name)
		t.print("FAIL %s\n%s", name, strings.Join(r.output[name], ""))
	case e.Action == "skip":
		r.skipped = append(r.skipped, name)
		r.reasons = append(r.reasons, reason(r.output[name]))
	}
	delete(r.output, name)
}

// end ends a package.
func (t *tally) end(name string, r *result, e testEvent) {
	if e.Action == "skip" {
		return // no test files
	}
	if e.Action == "fail" {
		r.broken = true
		t.print("%s", strings.Join(r.output[name], "")) // a panic or an exit outside any test
		delete(r.output, name)
		// What tests said in the midst of which their process died, or the machine that it ran on.
		for _, test := range slices.Sorted(maps.Keys(r.output)) {
			t.print("DIED in %s\n%s", test, strings.Join(r.output[test], ""))
		}
		r.died = len(r.output) > 0 || len(r.failed) == 0
	}
	t.print("%-4s %s %s", e.Action, name, time.Duration(e.Elapsed*float64(time.Second)).Round(10*time.Millisecond))
}

// failed are the packages that did.
func (t *tally) failed() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.packages)) {
		if t.packages[name].broken {
			names = append(names, name)
		}
	}
	return names
}

// top is the function of a test, as in "TestAttacks" of "race: test/attacks.TestAttacks/ptrace".
func top(name string) string {
	_, name, _ = strings.Cut(name, ".")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// failedTests are the functions of the tests that failed in some packages; none where that doesn't say what is to be run again.
func failedTests(packages map[string]*result) (tests []string) {
	for _, r := range packages {
		if r.died {
			return nil
		}
		for _, name := range r.failed {
			tests = append(tests, top(name))
		}
	}
	slices.Sort(tests)
	return slices.Compact(tests)
}

// takes adds to a package that was run again what wasn't of it; false: not all that had failed has passed.
func (r *result) takes(before *result) bool {
	if r == nil {
		return false
	}
	again := make(map[string]bool)
	for _, name := range slices.Concat(r.passed, r.failed, r.skipped) {
		again[top(name)] = true
	}
	for _, name := range before.passed {
		if !again[top(name)] {
			r.passed = append(r.passed, name)
		}
	}
	for i, name := range before.skipped {
		if !again[top(name)] {
			r.skipped, r.reasons = append(r.skipped, name), append(r.reasons, before.reasons[i])
		}
	}
	return !slices.ContainsFunc(before.failed, func(name string) bool { return !slices.Contains(r.passed, name) })
}

// tests are those that passed or failed, and those that were skipped.
func (t *tally) tests() (ran map[string]bool, skipped []string) {
	ran = make(map[string]bool)
	for _, r := range t.packages {
		for _, name := range slices.Concat(r.passed, r.failed) {
			ran[name] = true
		}
		skipped = append(skipped, r.skipped...)
	}
	return ran, skipped
}

// reason is what a test said when it was skipped: the last line of its output that testing didn't write itself.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, said, ok := strings.Cut(line, ".go:"); ok {
			if _, said, ok = strings.Cut(said, ": "); ok {
				return said
			}
		}
		return line
	}
	return "no reason given"
}

// sum prints the count and returns why it isn't good.
func (t *tally) sum(start time.Time, must, have string) error {
	var missing []string
	if must != "" {
		var err error
		if missing, err = t.missing(must, have); err != nil {
			return err
		}
	}
	passed, failed, skips := 0, len(missing), slices.Clone(t.skips)
	for _, name := range slices.Sorted(maps.Keys(t.packages)) {
		r := t.packages[name]
		passed, failed = passed+len(r.passed), failed+len(r.failed)
		for i := range r.skipped {
			skips = append(skips, r.skipped[i]+": "+r.reasons[i])
		}
	}
	for _, s := range skips {
		t.print("skip %s", s)
	}
	for _, m := range missing {
		t.print("MISSING %s must run on this machine (%s)", m, must)
	}
	for _, f := range t.flaky {
		t.print("FLAKY %s failed (see above) and passed when it was run again: a fault to be mended", f)
	}
	t.print("gotest: %s", time.Since(start).Round(time.Second))
	t.print("%d passed, %d failed, %d skipped, %d packages flaky", passed, failed, len(skips), len(t.flaky))
	switch {
	case passed == 0:
		return fmt.Errorf("no test was run")
	case len(missing) > 0:
		return fmt.Errorf("%d tests that this machine must run weren't run", len(missing))
	case failed > 0:
		return fmt.Errorf("%d tests failed", failed)
	case t.broken:
		return fmt.Errorf("go test failed outside a test")
	}
	return nil
}
