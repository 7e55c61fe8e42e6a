package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// test is a test function, with its time without a mutant.
type test struct {
	suite     *suite
	name      string
	wall, cpu time.Duration
}

// suite is the compiled tests of one package, with all mutants in the binary.
type suite struct {
	binary, folder string
}

// writeOverlay writes the files that replace others, by path, in the builds.
func writeOverlay(dir string, files map[string]string) error {
	replace := map[string]string{}
	for path, text := range files {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o644); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644)
}

// build compiles the tests of a package, with the files of the overlay in dir. If it has no tests, so has the suite.
func build(dir, folder string) (*suite, error) {
	s := &suite{binary: filepath.Join(dir, strings.ReplaceAll(folder, "/", "_"), "package.test"), folder: folder}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", s.binary, "./"+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return s, nil
}

// runner runs a test binary in a folder of its own, where the binary looks for what to do.
type runner struct {
	binary, folder string
	flags          []string
}

func (s *suite) runner(name string) (*runner, error) {
	dir := filepath.Join(filepath.Dir(s.binary), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	r := &runner{binary: filepath.Join(dir, filepath.Base(s.binary)), folder: s.folder}
	if err := os.Link(s.binary, r.binary); err != nil {
		return nil, err
	}
	usage, _, _ := r.run(0, 0, 0, "-help") // whose status differs
	if strings.Contains(string(usage), "-rapid.nofailfile") {
		r.flags = []string{"-rapid.nofailfile"} // property tests leave no files in the package's folder
	}
	return r, nil
}

func (r *runner) file(name string) string { return filepath.Join(filepath.Dir(r.binary), name) }

// run runs tests with a mutant, or none (0), for a limited time. An error of type *exec.ExitError is the tests'.
func (r *runner) run(mutant int, cpu, wall time.Duration, args ...string) ([]byte, *os.ProcessState, error) {
	seconds := int(cpu/time.Second) + 1
	if cpu == 0 {
		seconds = 0
	}
	if err := os.WriteFile(r.file("active"), fmt.Appendln(nil, mutant, seconds), 0o644); err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	cmd := exec.Command(r.binary, append(args, r.flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.folder, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for processes outside the group that have the output open
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the group may have ended
	if wall != 0 {
		defer time.AfterFunc(wall, end).Stop()
	}
	err := cmd.Wait()
	end()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out.Bytes(), cmd.ProcessState, err
}

// slow is a test's limit of processor time.
const slow = 3 * time.Second

// measure runs each test alone without a mutant, and records its time and which mutants it reaches.
func (s *suite) measure(w io.Writer, all []*mutant) error {
	if _, err := os.Stat(s.binary); errors.Is(err, os.ErrNotExist) {
		return nil // the package has no tests
	}
	r, err := s.runner("measure")
	if err != nil {
		return err
	}
	list, _, err := r.run(0, 0, 0, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return fmt.Errorf("list tests: %w\n%s", err, list)
	}
	for name := range strings.FieldsSeq(string(list)) {
		if err := os.WriteFile(r.file("reached"), make([]byte, len(all)), 0o666); err != nil {
			return err
		}
		if err := os.Chmod(r.file("reached"), 0o666); err != nil { // for tests' children that are other users
			return err
		}
		start := time.Now()
		out, state, err := r.run(0, 0, 0, "-test.run", "^"+name+"$")
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", name, err, out)
		}
		t := &test{s, name, time.Since(start), state.UserTime() + state.SystemTime()}
		if t.cpu > slow {
			fmt.Fprintf(w, "%s: %s is left out: it needs %.0f seconds of processor time\n", s.folder, name, t.cpu.Seconds())
			continue
		}
		reached, err := os.ReadFile(r.file("reached"))
		if err != nil {
			return err
		}
		for i, m := range all {
			if reached[i] != 0 {
				m.reached = true
				m.tests = append(m.tests, t)
			}
		}
	}
	return nil
}

// tryAll finds out which mutants are killed.
func tryAll(suites []*suite, all []*mutant, workers int) error {
	numbers := make(chan int)
	failed := make([]error, workers)
	var group sync.WaitGroup
	for i := range workers {
		runners := map[*suite]*runner{}
		for _, s := range suites {
			if !slices.ContainsFunc(all, func(m *mutant) bool { return len(m.testsOf(s)) > 0 }) {
				continue
			}
			r, err := s.runner(fmt.Sprint("worker", i))
			if err != nil {
				return err
			}
			runners[s] = r
		}
		group.Go(func() {
			for n := range numbers {
				m := all[n]
				for _, s := range suites {
					if tests := m.testsOf(s); failed[i] == nil && !m.killed && len(tests) > 0 {
						m.killed, failed[i] = runners[s].kills(n+1, tests)
					}
				}
			}
		})
	}
	for n := range all {
		numbers <- n
	}
	close(numbers)
	group.Wait()
	return errors.Join(failed...)
}

// kills reports whether tests of one suite fail with a mutant: the fastest, then, in fewer and longer runs, the others.
func (r *runner) kills(mutant int, tests []*test) (bool, error) {
	tests = slices.SortedFunc(slices.Values(tests), func(a, b *test) int { return int(a.wall - b.wall) })
	for budget := 50 * time.Millisecond; len(tests) > 0; budget *= 4 {
		var names []string
		var wall, cpu time.Duration
		for len(tests) > 0 && (names == nil || wall+tests[0].wall <= budget) {
			names = append(names, tests[0].name)
			wall, cpu = wall+tests[0].wall, cpu+tests[0].cpu
			tests = tests[1:]
		}
		// The limit is of processor time, which doesn't depend on other load. A test that blocks forever reaches the timeout.
		_, _, err := r.run(mutant, 3*cpu+time.Second, 10*wall+5*time.Second, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}
