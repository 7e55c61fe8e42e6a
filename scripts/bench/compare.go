package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// comparison is one run of all workloads under all confiners, as an ordinary user.
type comparison struct {
	dir       string
	env       []string
	as        *syscall.Credential // nil: the current user
	confiners []confiner
	log       *os.File
}

// result is a workload's under a confiner.
type result struct {
	median time.Duration
	fails  string // why there is none
}

// compare measures the workloads under the confiners and prints docs/BENCHMARKS-PEERS.md.
func compare(out io.Writer, toolguard string) error {
	c, err := newComparison(toolguard)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	defer c.log.Close()
	all := workloads()
	results := make([][]result, len(all))
	for i, w := range all {
		fmt.Fprintln(os.Stderr, "bench:", w.name)
		if results[i], err = c.measure(w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	fmt.Fprintf(out, `# What it costs, compared with other programs

Compare toolguard's backends with the programs that confine by the same mechanisms here. `+"`make bench-peers`"+` wrote this page;
scripts/bench has the exact commands. Compare the ratios, not the times: other programs use the machine at the same time. [BENCHMARKS.md](BENCHMARKS.md) has
what else toolguard costs.

- Machine: %s
- Versions: %s

Medians of commands that ran in turn, in random order, as an ordinary user. Each time includes the start. In parentheses: relative to bare. All let
the system be read and executed and only the workspace and temporary files be written, and grant no network. Beyond that they differ. toolguard's bwrap and
firejail backends and srt protect files in the workspace. toolguard, firejail and srt filter system calls. toolguard alone reports denials.

`, machine(), strings.Join(c.versions(toolguard), "; "))
	c.table(out, all, results)
	losses(out, c.confiners, all, results)
	return nil
}

// newComparison makes a folder that the user may enter, with the programs in it.
func newComparison(toolguard string) (*comparison, error) {
	as, err := ordinary()
	if err != nil {
		return nil, err
	}
	dir, err := scene(toolguard)
	if err != nil {
		return nil, err
	}
	c := &comparison{dir: dir, as: as}
	if err := copySelf(filepath.Join(dir, "bench")); err != nil {
		return nil, err
	}
	if c.log, err = os.Create(filepath.Join(dir, "log")); err == nil {
		err = c.own(c.workspace("home"))
	}
	if err == nil {
		c.confiners, err = confiners(dir)
	}
	c.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.workspace("home"), "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false", "GOPATH=/nonexistent",
		"CGO_ENABLED=0", "npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false",
	}
	return c, err
}

// ordinary is the first ordinary user with an account, which firejail asks for, if the current user is root.
func ordinary() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) < 4 {
			continue
		}
		uid, _ := strconv.Atoi(f[2])
		gid, err := strconv.Atoi(f[3])
		if err == nil && uid >= 1000 && uid < 60000 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no account of an ordinary user", errNotHere)
}

func (c *comparison) workspace(name string) string { return filepath.Join(c.dir, name) }

// own makes a folder of the user's.
func (c *comparison) own(dir string) error {
	err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755)
	if err != nil || c.as == nil {
		return err
	}
	return errors.Join(os.Chown(dir, int(c.as.Uid), int(c.as.Gid)), os.Chown(filepath.Join(dir, "tmp"), int(c.as.Uid), int(c.as.Gid)))
}

// measure runs a workload under each confiner.
func (c *comparison) measure(w workload) ([]result, error) {
	ws := c.workspace(w.dir)
	if err := c.own(ws); err != nil {
		return nil, err
	}
	env := append(slices.Clone(c.env), "TMPDIR="+ws+"/tmp", "CLAUDE_TMPDIR="+ws+"/tmp", "GOCACHE="+ws+"/cache", "npm_config_cache="+ws+"/npm-cache")
	if _, err := start(ws, []string{"/bin/bash", "-ec", w.setup}, env, c.as, c.log); err != nil {
		return nil, err
	}
	argv := slices.Clone(w.argv)
	if !strings.Contains(argv[0], "/") {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			return nil, err
		}
		argv[0] = path
	}
	times := make([][]time.Duration, len(c.confiners))
	cells := make([]result, len(c.confiners))
	for i, with := range c.confiners {
		cells[i].fails = with.missing
	}
	for run := -(w.runs / 10); run < w.runs; run++ { // the first are warm-ups
		for _, i := range rand.Perm(len(c.confiners)) {
			if cells[i].fails != "" {
				continue
			}
			for _, name := range w.undo {
				if err := os.RemoveAll(filepath.Join(ws, name)); err != nil {
					return nil, err
				}
			}
			took, err := start(ws, c.confiners[i].command(ws, argv), env, c.as, c.log)
			if err != nil && i == 0 {
				return nil, err
			} else if err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s: %v\n", c.confiners[i].name, err)
				cells[i].fails = lastLine(err.Error())
			} else if run >= 0 {
				times[i] = append(times[i], took)
			}
		}
	}
	for i, t := range times {
		if slices.Sort(t); len(t) > 0 {
			cells[i].median = t[len(t)/2]
		}
	}
	return cells, nil
}
