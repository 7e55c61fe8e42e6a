//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
)

// The kernel enforces an ordinary user's limits, and an event reports a limit that is met.
func TestLimits(t *testing.T) {
	share(t)
	const large, many = "head -c 20000000 /dev/zero | tail -n 1 | wc -c\n", "sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done' 2>/dev/null\n" // bash would wait and fork again
	for _, x := range []struct {
		limit, script, rule string
		status              int
	}{
		{"memory=16MiB", large, "limits.memory", -1},
		{"pids=5", many, "limits.pids", -1},
		{"wall_time=2s", `sleep 1000; exit 3`, "limits.wall_time", -1},
		{"memory=1GiB,pids=50,wall_time=1h", large + many + "exit 3", "", 3},
		{"wall_time=3s", "exec ./crowd", "limits.wall_time", 137}, // uses up all processes of the user, including toolguard's
	} {
		j := newJob(t, nobodyUID, work, x.script, "--limits", x.limit)
		if strings.HasSuffix(x.script, "crowd") {
			program, err := os.ReadFile(built + "/run/crowd")
			must(t, errors.Join(err, os.WriteFile(j.workspace+"/crowd", program, 0o755)))
			j.Path, j.Args = "/bin/bash", append([]string{"bash", "-c", `ulimit -u 100; exec "$@"`, "bash"}, append([]string{j.Path}, j.Args[1:]...)...)
		}
		if got := j.start().status(); x.status >= 0 && got != x.status {
			t.Errorf("%s: exit status %d, want %d", x.limit, got, x.status)
		}
		met := ""
		for _, e := range j.reported() {
			if e.Reason == "limit" {
				met = e.Rule
			}
		}
		if met != x.rule {
			t.Errorf("%s: the events report the limit %q, want %q", x.limit, met, x.rule)
		}
		if n := running(t, j.workspace); n > 0 {
			t.Errorf("%s: %d processes remain", x.limit, n)
		}
	}
	eventually(t, "no control group remains", func() bool {
		left, _ := filepath.Glob("/sys/fs/cgroup/toolguard/*/cgroup.procs")
		return len(left) == 0
	})
}

// Each session has its own cgroup with all of its processes, even if it needs none. A nested session's is beneath the outer one's. The kernel's
// counts outlive toolguardd. No process outlives the session, even if it always forks before it's moved.
func TestCgroups(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	outer := newJob(t, nobodyUID, work+reach(), built+"/toolguard exec --daemon require --policy inner.toml --report never -- sleep 1000")
	outer.write("inner.toml", work)
	jobs := []*job{
		newJob(t, nobodyUID, work, "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.3; sleep 1000) & sleep 0.05; done; wait"),
		newJob(t, nobodyUID, work, "sleep 1000 & wait", "--limits", "pids=50"),
		outer,
		newJob(t, nobodyUID, work, "chain() { (sleep 0.01; chain) & }; chain; sleep 1000"),
	}
	for _, j := range jobs {
		j.start()
	}
	before := map[string]uint64{} // processor time by cgroup
	shown := func() (whole int) {
		out, _ := ask(t, 0, "sessions", "list", "--json")
		var list []api.Session
		must(t, json.Unmarshal([]byte(out), &list))
		for _, x := range list {
			threads, err := os.ReadFile(x.Cgroup + "/cgroup.threads")
			if err != nil || bytes.Count(threads, []byte("\n")) == 0 || x.Usage.CPU == nil || *x.Usage.CPU < before[x.Cgroup] {
				continue
			}
			if beneath := strings.Count(strings.TrimPrefix(x.Cgroup, "/sys/fs/cgroup/toolguard/"), "/"); (x.Within != "") != (beneath == 1) {
				t.Errorf("session %s in %q has the cgroup %s", x.ID, x.Within, x.Cgroup)
			}
			if before[x.Cgroup] = *x.Usage.CPU; !strings.Contains(x.Usage.Missing, "its processes") {
				whole++
			}
		}
		return whole
	}
	eventually(t, "the four sessions whose processes can be moved are in their cgroups", func() bool { return shown() >= 4 && len(before) == 5 })
	s.stop(syscall.SIGKILL)
	serve(t, state)
	eventually(t, "the next toolguardd shows at least as much", func() bool { return shown() >= 4 })
	for _, j := range jobs {
		must(t, j.Process.Kill())
		_ = j.Wait()
	}
	eventually(t, "no session and no cgroup remain", func() bool {
		left, _ := filepath.Glob("/sys/fs/cgroup/toolguard/*/cgroup.procs")
		return len(sessions(t, 0)) == 0 && len(left) == 0
	})
	for _, j := range jobs {
		if n := running(t, j.workspace); n > 0 {
			t.Errorf("%d processes remain of %s", n, j.Args[len(j.Args)-1])
		}
	}
}

// The wall time applies even if the session's toolguard is stopped.
func TestWallTime(t *testing.T) {
	t.Parallel()
	share(t)
	received := follow(t, 0, "--reason", "limit")
	j := newJob(t, other, work, `echo up >can; sleep 1000`, "--limits", "wall_time=20s").start()
	j.wrote("can", "up")
	must(t, j.Process.Signal(syscall.SIGSTOP))
	eventually(t, "only toolguard remains", func() bool { return running(t, j.workspace) == 1 })
	must(t, j.Process.Kill())
	_ = j.Wait()
	eventually(t, "the session has ended", func() bool { return len(sessions(t, other)) == 0 })
	eventually(t, "root receives the end", func() bool {
		list := received()
		return len(list) > 0 && list[len(list)-1].Kind == "session_end"
	})
	if list := received(); len(list) != 2 || list[0].Kind != "denial" || list[0].Rule != "limits.wall_time" || list[1].Rule != "limits.wall_time" {
		t.Errorf("root receives %+v", list)
	}
}
