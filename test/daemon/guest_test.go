//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
)

// work is a policy under which a shell works in its workspace.
const work = `
[access]
default = { fs = "deny", net = "deny" }

[[access.fs]]
path = "."
read = true
write = true
execute = true
`

// more is work, and reading the file outside.
const more = work + `
[[access.fs]]
path = "OUTSIDE"
read = true
`

// keepLooking is a script that writes repeatedly to a file whether the command can read the file outside.
const keepLooking = `while :; do read x 2>/dev/null <OUTSIDE && echo yes >can || echo no >can; sleep 0.05; done`

// The BPF programs enforce the policy of an ordinary user's command, and its events are the same as root's.
func TestExec(t *testing.T) {
	if n := childtest.Filters(t, share(t).Process.Pid); n != 2 {
		t.Errorf("toolguardd has loaded %d of its two system call filters", n)
	}
	const read, opened = `read x <OUTSIDE && exit 5; exit 7`, `echo >>OUTSIDE && echo >/dev/stdout && echo >/proc/self/fd/1`
	for _, x := range []struct {
		policy, script string
		status         int
		denied         string // the suffix of the denied file's name after that of the file outside; "no": none is denied
	}{
		{more, read, 5, "no"},
		{work, read, 7, ""},
		{more + "update = true\n", `x=$(` + opened + `) && exit 5; exit 7`, 5, "no"}, // O_CREAT creates no file there
		{more + "update = true\n", `x=$(` + opened + ` && echo >OUTSIDE-new); exit 7`, 7, "-new"},
	} {
		j := newJob(t, nobodyUID, x.policy, x.script)
		must(t, os.Chmod(j.outside, 0o666))
		must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
		if got := j.start().status(); got != x.status {
			t.Errorf("%s: exit status %d, want %d", x.script, got, x.status)
		}
		n, want := j.count("denial", j.outside+x.denied), 1
		if x.denied == "no" {
			n, want = j.count("denial", ""), 0
		}
		if n != want || j.count("session_end", "") != 1 {
			t.Errorf("%s: %d denials in the events, want %d: %+v", x.script, n, want, j.reported())
		}
	}
}

// A user sees and ends the user's own sessions, root all, other users none.
func TestPermissions(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, work, `trap '' TERM; echo up >can; setsid sh -c "trap '' TERM; while :; do sleep 1; done" & while :; do sleep 1; done`).start()
	j.wrote("can", "up")
	list := sessions(t, nobodyUID)
	if len(list) != 1 || list[0].PID != j.Process.Pid || list[0].State != "running" {
		t.Fatalf("%+v", list)
	}
	for uid, sees := range map[uint32]bool{nobodyUID: true, 0: true, other: false} {
		if out, code := ask(t, uid, "sessions", "list"); code != 0 || strings.Contains(out, list[0].ID) != sees {
			t.Errorf("user %d sees: %d, %s", uid, code, out)
		}
	}
	for _, args := range [][]string{{"show"}, {"kill"}, {"reload", "--policy", "preset:readonly"}} {
		args = append([]string{"sessions", args[0], list[0].ID}, args[1:]...)
		if out, code := ask(t, other, args...); code != 2 || !strings.Contains(out, "there is no session") {
			t.Errorf("another user: %v: %d, %s", args, code, out)
		}
	}
	if out, code := ask(t, nobodyUID, "sessions", "kill", list[0].ID); code != 0 {
		t.Errorf("kill: %d, %s", code, out)
	}
	if got := j.status(); got != 128+int(syscall.SIGKILL) {
		t.Errorf("the command that was killed: %d", got)
	}
	eventually(t, "the session has ended", func() bool { return len(sessions(t, 0)) == 0 && !runs(t, j.workspace) })
}

// sessions show prints a session for people, and as JSON.
func TestShow(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, work, `read x <OUTSIDE; echo up >can; read x <OUTSIDE; sleep 1000; exit`, "--tool", "builder", "--agent", "night", "--limits", "pids=50").start()
	j.wrote("can", "up")
	eventually(t, "both denials are reported", func() bool { return j.count("denial", j.outside) == 2 })
	s := sessions(t, nobodyUID)[0]
	text, code := ask(t, nobodyUID, "sessions", "show", s.ID)
	for _, want := range []string{
		"session    " + s.ID, "state      running", "command    bash -c read x <", "since      20[0-9-]{8} [0-9:]{8} \\([0-9hm]+s\\)", fmt.Sprint("user       ", nobodyUID),
		fmt.Sprint("toolguard  process ", j.Process.Pid), `policy     \S+ \([0-9a-f]{12}\), ` + s.Files[0], "reloads    0", "workspace  " + j.workspace, "threads    [23]$", fmt.Sprint("denied     ", s.Denied),
		"tool       builder", "agent      night", "cgroup     " + s.Cgroup,
	} {
		if !regexp.MustCompile("(?m)^"+want+".*$").MatchString(text) || code != 0 {
			t.Errorf("%d, no %q in\n%s", code, want, text)
		}
	}
	machines, code := ask(t, nobodyUID, "sessions", "show", "--json", s.ID)
	var got api.Session
	must(t, json.Unmarshal([]byte(machines), &got))
	if code != 0 || !reflect.DeepEqual(got, s) || s.Denied < 2 {
		t.Errorf("%d, %+v, and the list has %+v", code, got, s)
	}
	must(t, j.Process.Signal(syscall.SIGTERM))
	j.status()
	eventually(t, "it's no longer shown", func() bool {
		text, code := ask(t, nobodyUID, "sessions", "show", s.ID)
		return code == 2 && strings.Contains(text, "there is no session "+s.ID)
	})
}

// runs reports whether a process has a working directory.
func runs(t *testing.T, dir string) bool { return running(t, dir) > 0 }

func running(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	for _, cwd := range all {
		if at, _ := os.Readlink(cwd); at == dir {
			n++
		}
	}
	return n
}

// A reload changes the policy of a running session at once.
func TestReload(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, work, keepLooking).start()
	j.wrote("can", "no")
	id := sessions(t, nobodyUID)[0].ID
	for _, x := range []struct{ policy, can string }{{more, "yes"}, {work, "no"}, {more, "yes"}, {work, "no"}} {
		file := j.write("../next.toml", x.policy)
		if out, code := ask(t, nobodyUID, "sessions", "reload", id, "--policy", file); code != 0 {
			t.Fatalf("reload: %d, %s", code, out)
		}
		j.wrote("can", x.can)
	}
	if s := sessions(t, nobodyUID)[0]; s.Reloads != 4 || s.Home != filepath.Dir(j.workspace) {
		t.Errorf("%+v", s)
	}
	must(t, j.Process.Signal(syscall.SIGTERM))
	j.status()
	for _, e := range j.reported() {
		if e.Reason == "engine_error" {
			t.Errorf("an event is described by another policy than the one that decided: %+v", e)
		}
	}
}

// toolguardd is killed: sessions stay enforced, no new one begins, and the next toolguardd takes them over.
func TestTakeOver(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	j := newJob(t, nobodyUID, work, keepLooking, "--limits", "pids=50").start()
	j.wrote("can", "no")
	lingering := newJob(t, nobodyUID, work, `sleep 1000 >/dev/null 2>&1 & echo up >can`, "--linger").start()
	lingering.wrote("can", "up")
	lingering.status()
	before := sessions(t, nobodyUID)
	s.stop(syscall.SIGKILL)

	for range 5 { // the policy stays enforced
		must(t, os.WriteFile(j.workspace+"/can", []byte("?"), 0o666))
		j.wrote("can", "no")
	}
	if rejected := newJob(t, nobodyUID, work, "true"); rejected.start().status() != 125 {
		t.Error("a session that requires toolguardd begins without it")
	}

	serve(t, state)
	after := sessions(t, nobodyUID)
	if len(before) != 2 || len(after) != 2 || after[0].ID != before[0].ID || after[1].ID != before[1].ID || after[1].State != "left" {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	count := j.count("denial", j.outside)
	eventually(t, "its denials are reported again, after a gap", func() bool {
		return j.count("gap", "") > 0 && j.count("denial", j.outside) > count
	})
	must(t, j.Process.Kill())
	_ = j.Wait()
	if out, code := ask(t, nobodyUID, "sessions", "kill", after[1].ID); code != 0 {
		t.Errorf("kill the lingering session: %d, %s", code, out)
	}
	eventually(t, "all sessions have ended", func() bool { return len(sessions(t, 0)) == 0 && !runs(t, lingering.workspace) })
	eventually(t, "the cgroup and the files are removed", func() bool {
		_, err := os.Stat(after[0].Cgroup)
		left, _ := filepath.Glob(state + "/sessions/*")
		return os.IsNotExist(err) && len(left) == 0
	})
}

// A toolguardd that is killed during a reload may leave the new policy in the session's file, and the former one in the kernel or in a nested
// session. The next toolguardd completes the reload.
func TestKilledInReload(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	j := newJob(t, nobodyUID, more+reach(), built+`/toolguard exec --daemon require --policy inner.toml --report never -- bash -c '`+
		strings.ReplaceAll(keepLooking, ">can", ">in")+`' &
`+keepLooking)
	j.write("inner.toml", more)
	j.start()
	can := func(what string) {
		t.Helper()
		j.wrote("can", what)
		j.wrote("in", what)
	}
	can("yes")
	id := sessions(t, nobodyUID)[0].ID
	file := state + "/sessions/" + id + "/session.json"
	var narrow []byte
	for _, x := range []struct{ policy, can string }{{work, "no"}, {more, "yes"}} {
		if out, code := ask(t, nobodyUID, "sessions", "reload", id, "--policy", j.write("../next.toml", x.policy+reach())); code != 0 {
			t.Fatalf("reload: %d, %s", code, out)
		}
		can(x.can)
		if x.can == "no" {
			var err error
			narrow, err = os.ReadFile(file)
			must(t, err)
		}
	}
	s.stop(syscall.SIGKILL)
	must(t, os.WriteFile(file, narrow, 0o600))
	serve(t, state)
	can("no")
	if list := sessions(t, nobodyUID); len(list) != 2 || list[0].Reloads != 1 || list[1].State != "running" {
		t.Errorf("%+v", list)
	}
	must(t, j.Process.Kill())
	_ = j.Wait()
	eventually(t, "both sessions have ended", func() bool { return len(sessions(t, 0)) == 0 })
}

// When the toolguard that started a session is killed, the session ends.
func TestToolguardIsKilled(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, work, `setsid sh -c 'while :; do sleep 1; done' & echo up >can; wait`).start()
	j.wrote("can", "up")
	must(t, j.Process.Kill())
	_ = j.Wait()
	eventually(t, "the session has ended", func() bool { return len(sessions(t, 0)) == 0 && !runs(t, j.workspace) })
}

// follow subscribes a user to events. The returned function returns the events so far.
func follow(t *testing.T, uid uint32, args ...string) func() []seenEvent {
	t.Helper()
	file := followed(t, uid, append([]string{"--json"}, args...)...)
	return func() (list []seenEvent) {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range bytes.Lines(text) {
			if bytes.HasSuffix(line, []byte("\n")) {
				list = append(list, parseEvent(t, line))
			}
		}
		return list
	}
}

// followed subscribes a user to events, and returns the file with them.
func followed(t *testing.T, uid uint32, args ...string) (file string) {
	t.Helper()
	file = t.TempDir() + "/followed"
	out, err := os.Create(file)
	must(t, err)
	defer out.Close()
	cmd := exec.Command(built+"/toolguard", append([]string{"events"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Stdout = out
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return file
}

// The denial of a system call by a session's filters is reported once, for users and for root.
func TestCalls(t *testing.T) {
	share(t)
	for _, uid := range []uint32{nobodyUID, 0} {
		j := newJob(t, uid, work, "swapoff /nowhere; true")
		j.start().status()
		if n := j.count("denial", "swapoff"); n != 1 {
			t.Errorf("user %d gets %d denials: %+v", uid, n, j.reported())
		}
	}
}
