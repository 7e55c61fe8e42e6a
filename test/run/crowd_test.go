//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that uses up the processes that its user or its cgroup may have is ended in time and reported, or it isn't started, and then
// the message says which limit it was. That's so at each limit's edge, and where toolguard replaces its caller by exec.
func TestCrowd(t *testing.T) {
	for i, row := range []struct {
		name   string
		before func(t *testing.T, p fixture) string // for the shell that executes toolguard
		user   bool
		limit  int
		starts bool
	}{
		{"ulimit 300", ulimit, true, 300, true},
		{"ulimit 100", ulimit, true, 100, true},
		{"ulimit 60", ulimit, true, 60, true},
		{"ulimit 40", ulimit, true, 40, false},
		{"ulimit 8", ulimit, true, 8, false},
		{"ulimit 200 with children", func(t *testing.T, p fixture) string { return "sleep 100 >/dev/null 2>&1 & " + ulimit(t, p) }, true, 200, true},
		{"pids.max 100", cgroupOf, false, 100, true},
		{"pids.max 30", cgroupOf, false, 30, true},
		{"pids.max 10", cgroupOf, false, 10, false},
	} {
		for _, backend := range []string{"landlock", "auto"} {
			if backend == "auto" && os.Getenv("TOOLGUARD_VM") == "" {
				continue // it's landlock, too
			}
			t.Run(row.name+"/"+backend, func(t *testing.T) {
				if os.Geteuid() != 0 {
					t.Skip("needs root: the user must have no other processes, and a cgroup is made")
				}
				needs(t, "bash")
				p := newFixture(t, user{Name: "root"})
				if row.user {
					p.user = user{Name: "crowd", ID: 64300 + i}
					p.own(t)
				}
				before := fmt.Sprintf(row.before(t, p), row.limit)
				mark := fmt.Sprintf("1000.07%02d", i)
				flags := append([]string{"--backend", backend, "--limits", "wall_time=1s"}, policy...)
				argv := p.confined(flags, p.compile(t, "crowd"), mark).Args
				out := run(t, p.command(append([]string{"bash", "-c", "set -e; " + before + ` exec "$@"`, "bash"}, argv...)...))
				ended := out.code == 137 && strings.Contains(out.stderr, "limits.wall_time")
				refused := out.code == 125 && strings.Contains(out.stderr, "toolguard needs")
				if row.starts && !ended || !row.starts && !refused || strings.Contains(out.stderr, "goroutine") {
					t.Errorf("%d, %s", out.code, out.stderr)
				}
				if n := processes(t, mark); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		}
	}
}

func ulimit(*testing.T, fixture) string { return "ulimit -u %d;" }

// cgroupOf makes a cgroup whose processes are bounded, beneath the mount that has the controller.
func cgroupOf(t *testing.T, _ fixture) string {
	t.Helper()
	parent := "/sys/fs/cgroup"
	if unix.Access(parent+"/pids", unix.F_OK) == nil {
		parent += "/pids"
	} else if err := os.WriteFile(parent+"/cgroup.subtree_control", []byte("+pids"), 0); err != nil {
		t.Skip("needs a cgroup with the pids controller: ", err)
	}
	dir, err := os.MkdirTemp(parent, "toolguard-test-")
	must(t, err)
	t.Cleanup(func() {
		for _, pid := range inCgroup(t, dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !eventually(func() bool { return unix.Rmdir(dir) == nil }) {
			t.Error(dir, " can't be removed")
		}
	})
	return "echo %d > " + dir + "/pids.max; echo $$ > " + dir + "/cgroup.procs;"
}

func inCgroup(t *testing.T, dir string) (pids []int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	must(t, err)
	for word := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(word)
		must(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// The command's own limit is lower than toolguard's, and can't be raised.
func TestProcessLimitIsLowered(t *testing.T) {
	needs(t, "bash")
	bash := func(argv []string) []string { return append([]string{"bash"}, argv[1:]...) }
	for _, u := range users() {
		p := newFixture(t, u)
		for limit, want := range map[string]string{
			"ulimit -u 1000;": "936\n936\n", "ulimit -Su 500;ulimit -Hu 1000;": "500\n936\n", "ulimit -u 1600;": "1500\n1500\n",
		} {
			script := "ulimit -Su; ulimit -Hu; ulimit -u 1000 2>/dev/null && ulimit -u 1600 2>/dev/null && echo raised"
			if out := run(t, p.command(bash(p.replacing(limit, "bash", "-c", script))...)); !strings.HasPrefix(out.stdout, want) || strings.Contains(out.stdout, "raised") {
				t.Errorf("%s, %s %+v", u.Name, limit, out)
			}
		}
	}
}
