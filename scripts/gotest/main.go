// Command gotest runs all tests of the module and of test/siem, then those of internal/ again under the race detector, or, with -exec, the
// tests of some packages in another place; and closes with one honest count. A test that was skipped is named with its reason.
// The list given with -must says which tests may not be skipped on a machine that has a feature, and must exist: a green run
// that tested nothing fails.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	must := flag.String("must", "", "list of `FEATURE... TEST` lines that may not be skipped where the features are")
	have := flag.String("have", "scripts/features", "`COMMAND` that prints the features")
	where := flag.String("exec", "", "`PROGRAM` that runs the packages' tests elsewhere, as go test has it")
	as := flag.String("as", "", "`NAME` of that place, which begins every line")
	flag.Parse()
	if *as != "" {
		*as += ": "
	}
	t := &tally{as: *as, ran: make(map[string]bool), output: make(map[string][]string)}
	if err := t.run(*must, *have, *where, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "%sgotest: %v\n", *as, err)
		os.Exit(1)
	}
}

func (t *tally) run(must, have, where string, packages []string) error {
	start := time.Now()
	whole := len(packages) == 0
	if whole {
		packages = []string{"./..."}
	}
	plain := exec.Command("go", append([]string{"test", "-json", "-timeout", "20m"}, packages...)...)
	if where != "" {
		// What comes of a test there isn't known from before, and it may wait for its turn.
		plain.Args = slices.Insert(plain.Args, 2, "-exec="+where, "-count=1")
		plain.Args[slices.Index(plain.Args, "20m")] = "2h"
	}
	plain.Env = append(os.Environ(), "CGO_ENABLED=0")
	broken := t.follow(plain, "")
	if whole { // a module of its own
		siem := exec.Command("go", "test", "-json", "-timeout", "20m", "./...")
		siem.Dir = "test/siem"
		siem.Env = plain.Env
		broken = t.follow(siem, "") || broken
	}

	if where != "" {
		// Once is enough.
	} else if _, err := exec.LookPath("gcc"); err != nil {
		t.skip("race detector", "needs gcc")
	} else {
		race := exec.Command("go", "test", "-json", "-race", "-timeout", "20m", "./internal/...", "./cmd/...")
		race.Env = append(os.Environ(), "CGO_ENABLED=1")
		broken = t.follow(race, "race: ") || broken
	}

	if must != "" {
		if err := t.check(must, have); err != nil {
			return err
		}
	}
	t.sum(time.Since(start), must)
	switch {
	case t.passed == 0:
		return fmt.Errorf("no test was run")
	case len(t.missing) > 0:
		return fmt.Errorf("%d tests that this machine must run weren't run", len(t.missing))
	case t.failed > 0:
		return fmt.Errorf("%d tests failed", t.failed)
	case broken:
		return fmt.Errorf("go test failed outside a test")
	}
	return nil
}

// check reads the list of tests that may not be skipped and notes those that didn't pass or fail. What ends
// in * is every test that begins so.
func (t *tally) check(list, have string) error {
	printed, err := exec.Command("sh", "-c", have).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", have, err)
	}
	features := make(map[string]bool)
	for _, f := range strings.Fields(string(printed)) {
		features[f] = true
	}
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		test := words[len(words)-1]
		if hasAll(features, words[:len(words)-1]) && !t.whole(test) {
			t.missing = append(t.missing, test)
		}
	}
	return lines.Err()
}

func (t *tally) whole(test string) bool {
	test, many := strings.CutSuffix(test, "*")
	if !many {
		return t.ran[test]
	}
	begins := func(s string) bool { return strings.HasPrefix(s, test) }
	return slices.ContainsFunc(slices.Collect(maps.Keys(t.ran)), begins) && !slices.ContainsFunc(t.skips, begins)
}

func hasAll(features map[string]bool, wanted []string) bool {
	for _, w := range wanted {
		if !features[w] {
			return false
		}
	}
	return true
}
