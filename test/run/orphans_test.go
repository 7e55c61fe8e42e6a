//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Processes that the command starts end with it: also daemons that left its session, and processes that ignore SIGTERM.
func TestNothingIsLeft(t *testing.T) {
	rows := []struct{ name, mark, script string }{
		{"in the background", "1000.0301", `sleep 1000.0301 & echo started`},
		{"daemon", "1000.0302", `setsid sh -c 'setsid sleep 1000.0302 >/dev/null 2>&1 < /dev/null &'; echo started`},
		{"ignores signals", "1000.0303", `(trap "" TERM HUP; while :; do sleep 1000.0303; done) >/dev/null 2>&1 & echo started`},
		{"stopped", "1000.0304", `(kill -STOP $(sh -c 'echo $PPID'); sleep 1000.0304) & sleep 0.1; sleep 1000.0304 & kill -STOP $!; echo started`},
		{"forking", "1000.0305", `f() { sleep 1000.0305 & f2 & }; f2() { while :; do sleep 1000.0305 & sleep 0.01; done; }; f; sleep 0.3; echo started`},
	}
	for _, r := range rows {
		for _, u := range users() {
			t.Run(u.Name+"/"+r.name, func(t *testing.T) {
				needs(t, "setsid")
				p := newFixture(t, u)
				began := time.Now()
				out := run(t, p.confined(policy, "sh", "-c", r.script))
				if out.code != 0 || out.stdout != "started\n" {
					t.Fatalf("%+v", out)
				}
				if n := processes(t, r.mark); n != 0 {
					t.Errorf("%d processes are left", n)
				}
				if !strings.Contains(out.stderr, "that the command had left in the background ended with it (--linger leaves such running)\n") {
					t.Errorf("their end isn't reported: %s", out.stderr)
				}
				if strings.Contains(out.stderr, "signal a process outside") {
					t.Errorf("toolguard's own signals are reported as the command's denials: %s", out.stderr)
				}
				t.Logf("ended after %v", time.Since(began))
			})
		}
	}
}

// --linger leaves the orphans, confined as before, and their TMPDIR.
func TestLinger(t *testing.T) {
	p := newFixture(t, users()[0])
	secret := p.secret(t)
	script := `(sleep 0.5; cat ` + secret + ` > got 2>&1; echo $TMPDIR > tmp; : > $TMPDIR/f && echo still >> tmp) >/dev/null 2>&1 & echo started`
	out := run(t, p.confined(append([]string{"--linger"}, policy...), "sh", "-c", script))
	if out.stdout != "started\n" {
		t.Fatalf("%+v", out)
	}
	var tmp string
	still := false
	eventually(func() bool {
		b, _ := os.ReadFile(filepath.Join(p.workspace, "tmp"))
		tmp, still = strings.CutSuffix(string(b), "\nstill\n")
		return still
	})
	if !still {
		t.Fatalf("an orphan can't use its TMPDIR: %q", tmp)
	}
	defer os.RemoveAll(tmp)
	if b, _ := os.ReadFile(filepath.Join(p.workspace, "got")); string(b) == "s" {
		t.Error("an orphan isn't confined any more")
	}
}

// Limits apply to the whole session.
func TestLimits(t *testing.T) {
	for _, u := range users() {
		t.Run(u.Name+"/wall time", func(t *testing.T) {
			p := newFixture(t, u)
			out := run(t, p.confined(append([]string{"--limits", "wall_time=300ms"}, policy...), "sh", "-c", "sleep 1000.0401; echo never"))
			if out.code != 128+15 || out.stdout != "" {
				t.Errorf("%+v", out)
			}
			if processes(t, "1000.0401") != 0 {
				t.Error("a process is left")
			}
		})
		t.Run(u.Name+"/open files", func(t *testing.T) {
			p := newFixture(t, u)
			out := run(t, p.confined(append([]string{"--limits", "open_files=20"}, policy...), "sh", "-c", "ulimit -Hn; ulimit -Sn; ulimit -n 21 || echo fixed"))
			if out.stdout != "20\n20\nfixed\n" {
				t.Errorf("%+v", out)
			}
		})
	}
}

// A limit that this machine can't set is an error that names it, before anything starts; the control is the same policy
// without it.
func TestLimitsThatCannotBeSet(t *testing.T) {
	p := newFixture(t, users()[len(users())-1]) // an ordinary user without toolguardd has no cgroup to limit
	got := run(t, p.confined(append([]string{"--daemon", "none", "--limits", "memory=64MiB"}, policy...), "touch", "marker"))
	if _, err := os.Stat(filepath.Join(p.workspace, "marker")); got.code != 125 || err == nil {
		t.Errorf("%+v, marker %v", got, err)
	}
	control := run(t, p.confined(append([]string{"--daemon", "none"}, policy...), "touch", "marker"))
	if _, err := os.Stat(filepath.Join(p.workspace, "marker")); control.code != 0 || err != nil {
		t.Errorf("control: %+v, marker %v", control, err)
	}
}

// When toolguard is killed, background processes of the session may continue, which is a stated gap, but always confined. With toolguardd
// they are ended (test/daemon.TestToolguardIsKilled).
func TestKilledToolguard(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		const mark = "1000.0306"
		p.write(t, "../home/secret", "s")
		const try = `cat ../home/secret; echo > ../home/made; echo done`
		if out := run(t, p.command("sh", "-c", try)); out.stdout != "sdone\n" || out.stderr != "" {
			t.Fatalf("control: %+v", out)
		}
		cmd := p.confined(append([]string{"--daemon", "none"}, policy...), "sh", "-c", `(while [ ! -e go ]; do sleep 0.05; done; `+try+`; exec sleep `+mark+`) > tried 2>&1 & echo ready; wait`)
		begin(t, cmd)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		p.write(t, "go", "")
		var tried string
		eventually(func() bool {
			b, _ := os.ReadFile(filepath.Join(p.workspace, "tried"))
			tried = string(b)
			return strings.HasSuffix(tried, "done\n")
		})
		for _, pid := range childtest.Processes(t, mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if strings.Count(tried, "Permission denied") != 2 || !strings.HasSuffix(tried, "\ndone\n") {
			t.Errorf("the orphan got %q", tried)
		}
	})
}

// Unkillable processes are reported, after a bounded wait. Waiting for them doesn't flood the audit log, which would lose other sessions'
// denials. Processes frozen by cgroup v1 are unkillable.
func TestFrozenOrphans(t *testing.T) {
	const freezers = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(freezers + "/tasks"); os.Geteuid() != 0 || err != nil {
		t.Skip("needs root and the freezer of cgroup v1")
	}
	p := newFixture(t, users()[0])
	const mark = "1000.0307"
	group, err := os.MkdirTemp(freezers, "run-test-")
	must(t, err)
	set := func(file, value string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(group, file), []byte(value), 0))
	}
	p.write(t, "go", "")
	cmd := p.confined(append([]string{"--report", "always"}, policy...), "sh", "-c", "sleep "+mark+" >/dev/null 2>&1 & echo ready; while [ -e go ]; do sleep 0.05; done")
	r := begin(t, cmd)
	if !eventually(func() bool { return processes(t, "sleep\x00"+mark) == 1 }) { // sh has started it
		t.Fatal("nothing is left behind")
	}
	set("cgroup.procs", strconv.Itoa(childtest.Processes(t, "sleep\x00"+mark)[0]))
	set("freezer.state", "FROZEN")
	must(t, os.Remove(filepath.Join(p.workspace, "go")))
	began := time.Now()
	code, rest := ended(t, cmd, r)
	if took := time.Since(began); code != 0 || took > patience || !strings.Contains(rest, "1 processes of the session don't end") ||
		strings.Contains(rest, "the kernel dropped") {
		t.Errorf("after %v: exit %d, %q", took, code, rest)
	}
	set("freezer.state", "THAWED")
	gone(t, "sleep\x00"+mark)
	if err := os.Remove(group); err != nil {
		t.Error(err)
	}
}
