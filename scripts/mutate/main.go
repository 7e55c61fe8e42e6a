// Command mutate changes single conditions of packages, and counts how many of the changes each package's own tests notice:
//
//	mutate [-workers N] [PACKAGE|FILE.go]...
//
// A comparison is negated, and its boundary moved; "and" becomes "or"; another condition is negated; plus becomes minus; each the other
// way round, too. One test binary has all changes of a package in it, and reads which one to make (active.go.txt). Each change is
// tried with the tests that reach it, the fastest first. What no test reaches, none notices.
//
// A test that needs more than 3 seconds of processor time is left out. It prints these tests, the
// changes that no test noticed, and a table. It fails if a package's tests notice less than 85 %.
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

// enough is how many percent of the changes a package's tests have to notice.
const enough = 85

// deciding are the packages that decide.
var deciding = []string{
	"internal/policy", "internal/policy/policyfile", "internal/egress", "internal/seccomp", "internal/landlock", "internal/audit",
	"internal/loader/image",
}

func main() {
	workers := flag.Int("workers", runtime.NumCPU(), "how many changes are tried at a time")
	flag.Parse()
	args := flag.Args()
	if len(args) == 0 {
		args = deciding
	}
	if err := run(os.Stdout, *workers, args); err != nil {
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(1)
	}
}

// target is a package, and the files of it that are changed: all if there are none.
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
	fmt.Fprintf(&table, "\n%8s%8s%8s%8s\n", "changes", "noticed", "percent", "seconds")
	var less []string
	for _, t := range targets(args) {
		start := time.Now()
		all, err := try(w, t, workers)
		if err != nil {
			return fmt.Errorf("%s: %w", t.folder, err)
		}
		noticed := 0
		for _, m := range all {
			switch {
			case m.noticed:
				noticed++
			case !m.reached:
				fmt.Fprintf(w, "%s  (no test reaches it)\n", m)
			default:
				fmt.Fprintln(w, m)
			}
		}
		percent := 100 * float64(noticed) / float64(max(len(all), 1))
		if percent < enough {
			less = append(less, t.folder)
		}
		name := strings.Join(append([]string{t.folder}, t.files...), " ")
		fmt.Fprintf(&table, "%8d%8d%8.1f%8.0f  %s\n", len(all), noticed, percent, time.Since(start).Seconds(), name)
	}
	if _, err := io.WriteString(w, table.String()); err != nil {
		return err
	}
	if less != nil {
		return fmt.Errorf("less than %d %% noticed in %s: test what the listed changes decide, or delete conditions that decide nothing", enough, strings.Join(less, ", "))
	}
	return nil
}

// try tries all changes of a package.
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
	binary, err := build(dir, t.folder, overlay)
	if err != nil {
		return nil, err
	}
	if err := measure(w, binary, t.folder, all); err != nil {
		return nil, err
	}
	return all, tryAll(binary, t.folder, all, workers)
}
