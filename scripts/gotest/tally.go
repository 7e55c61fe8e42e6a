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

// tally counts how tests ended.
type tally struct {
	as             string // what every line begins with
	passed, failed int
	skips          []string        // "test: reason"
	ran            map[string]bool // tests that passed or failed, as "test/attacks.TestAttacks/ptrace"
	missing        []string        // tests that had to run and didn't
	output         map[string][]string
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
	cmd.Stderr = os.Stderr
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
	name := prefix + strings.TrimPrefix(e.Package, module)
	if e.Test != "" {
		name += "." + e.Test
	}
	switch e.Action {
	case "output":
		t.output[name] = append(t.output[name], e.Output)
	case "build-output":
		t.print("%s", e.Output)
	case "pass", "fail", "skip":
		t.end(name, e)
		delete(t.output, name)
	}
}

func (t *tally) end(name string, e testEvent) {
	if e.Test == "" {
		t.endPackage(name, e)
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
		t.ran[name] = true
	case "fail":
		t.failed++
		t.ran[name] = true
		t.print("FAIL %s\n%s", name, strings.Join(t.output[name], ""))
	case "skip":
		t.skip(name, reason(t.output[name]))
	}
}

func (t *tally) endPackage(name string, e testEvent) {
	if e.Action == "skip" {
		return // no test files
	}
	if e.Action == "fail" {
		t.print("%s", strings.Join(t.output[name], "")) // a panic or an exit outside any test
		t.printUnended(name + ".")
	}
	t.print("%-4s %s %s", e.Action, name, time.Duration(e.Elapsed*float64(time.Second)).Round(10*time.Millisecond))
}

// printUnended prints what tests said in the midst of which their process died, or the machine that it ran on.
func (t *tally) printUnended(prefix string) {
	for _, name := range slices.Sorted(maps.Keys(t.output)) {
		if strings.HasPrefix(name, prefix) {
			t.print("DIED in %s\n%s", name, strings.Join(t.output[name], ""))
			delete(t.output, name)
		}
	}
}

func (t *tally) skip(name, why string) { t.skips = append(t.skips, name+": "+why) }

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

func (t *tally) sum(took time.Duration, list string) {
	for _, s := range t.skips {
		t.print("skip %s", s)
	}
	for _, m := range t.missing {
		t.print("MISSING %s must run on this machine (%s)", m, list)
	}
	t.print("gotest: %s", took.Round(time.Second))
	t.print("%d passed, %d failed, %d skipped", t.passed, t.failed+len(t.missing), len(t.skips))
}
