// Command gotest runs all tests of the module and of test/siem, then those of internal/ again under the race detector, or, with -exec, the
// tests of some packages in another place; and closes with one honest count. A test that was skipped is named with its reason.
// The list given with -must says which tests may not be skipped on a machine that has a feature, and must exist: a green run
// that tested nothing fails.
//
// Tests that failed are run once more, or their whole package where it died amidst them, unless many packages failed. If they pass then, the
// run passes, and names the package as flaky with all that it said: a fault, of a test or of what it tests, that is still to be mended.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mostFlaky is how many packages of a suite may fail and be run again: more than that is no accident.
const mostFlaky = 2

func main() {
	must := flag.String("must", "", "list of `FEATURE... TEST` lines that may not be skipped where the features are")
	have := flag.String("have", "scripts/features", "`COMMAND` that prints the features")
	where := flag.String("exec", "", "`PROGRAM` that runs the packages' tests elsewhere, as go test has it")
	as := flag.String("as", "", "`NAME` of that place, which begins every line")
	flag.Parse()
	if *as != "" {
		*as += ": "
	}
	if signal.Ignored(syscall.SIGHUP) { // by nohup(1), say: tests would inherit it, and what they start
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	t := &tally{as: *as, packages: make(map[string]*result)}
	start := time.Now()
	for _, s := range suites(*where, flag.Args()) {
		t.run(s)
	}
	if err := t.sum(start, *must, *have); err != nil {
		fmt.Fprintf(os.Stderr, "%sgotest: %v\n", *as, err)
		os.Exit(1)
	}
}

// suite is what one go test command runs.
type suite struct {
	prefix   string   // what the names of its tests begin with
	dir      string   // of the module
	flags    []string // of go test
	packages []string
	cgo      string // CGO_ENABLED
	missing  string // why it can't run here, or ""
}

func suites(where string, packages []string) []suite {
	if where != "" { // What comes of a test there isn't known from before, and it may wait for its turn.
		return []suite{{packages: packages, cgo: "0", flags: []string{"-count=1", "-timeout=2h", "-exec=" + where}}}
	}
	flags := []string{"-timeout=20m"}
	if len(packages) > 0 {
		return []suite{{packages: packages, cgo: "0", flags: flags}}
	}
	all := []suite{
		{packages: []string{"./..."}, cgo: "0", flags: flags},
		{packages: []string{"./..."}, cgo: "0", flags: flags, dir: "test/siem"}, // a module of its own
		{packages: []string{"./internal/...", "./cmd/..."}, cgo: "1", flags: append(flags, "-race"), prefix: "race: "},
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		all[2].missing = "needs gcc"
	}
	return all
}

func (s suite) command(more ...string) *exec.Cmd {
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, s.flags, more, s.packages)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+s.cgo)
	cmd.Stderr = os.Stderr
	return cmd
}

// run runs a suite, and once more what failed in it.
func (t *tally) run(s suite) {
	if s.missing != "" {
		t.skips = append(t.skips, s.prefix+s.missing)
		return
	}
	ran := &tally{as: t.as, packages: make(map[string]*result)}
	broken := ran.follow(s.command(), s.prefix)
	if failed := ran.failed(); 0 < len(failed) && len(failed) <= mostFlaky {
		s.packages = nil
		first := make(map[string]*result)
		for _, name := range failed {
			first[name] = ran.packages[name]
			s.packages = append(s.packages, first[name].path)
			delete(ran.packages, name)
		}
		again := []string{"-count=1"}
		if tests := failedTests(first); tests != nil {
			again = append(again, "-run=^("+strings.Join(tests, "|")+")$")
		}
		broken = ran.follow(s.command(again...), s.prefix)
		for name, before := range first {
			broken = !ran.packages[name].takes(before) || broken
		}
		if !broken {
			t.flaky = append(t.flaky, failed...)
		}
	}
	maps.Copy(t.packages, ran.packages)
	t.broken = t.broken || broken
}

// missing reads the list of tests that may not be skipped, and returns those that neither passed nor failed. What ends in * is every test
// that begins so.
func (t *tally) missing(list, have string) ([]string, error) {
	printed, err := exec.Command("sh", "-c", have).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", have, err)
	}
	features := make(map[string]bool)
	for _, f := range strings.Fields(string(printed)) {
		features[f] = true
	}
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ran, skipped := t.tests()
	var missing []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		test := words[len(words)-1]
		if hasAll(features, words[:len(words)-1]) && !whole(test, ran, skipped) {
			missing = append(missing, test)
		}
	}
	return missing, lines.Err()
}

func whole(test string, ran map[string]bool, skipped []string) bool {
	test, many := strings.CutSuffix(test, "*")
	if !many {
		return ran[test]
	}
	begins := func(s string) bool { return strings.HasPrefix(s, test) }
	return slices.ContainsFunc(slices.Collect(maps.Keys(ran)), begins) && !slices.ContainsFunc(skipped, begins)
}

func hasAll(features map[string]bool, wanted []string) bool {
	for _, w := range wanted {
		if !features[w] {
			return false
		}
	}
	return true
}
