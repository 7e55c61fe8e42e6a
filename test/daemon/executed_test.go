//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// recorded is a policy that records executions.
const recorded = "audit = \"exec\"\n" + work

// execEvent has the fields of an event that these tests check.
type execEvent struct {
	Count    uint64
	Process  eventProcess                   // the executed program
	Actor    struct{ Process eventProcess } // the denied process
	Unmapped struct {
		Kind, Session, Target, Asked, Mechanism string
		Execs                                   uint64
		Extra                                   map[string]string
	}
}

type eventProcess struct {
	PID     int
	CmdLine string `json:"cmd_line"`
	Parent  struct {
		PID  int
		Name string
		User struct{ UID string }
	} `json:"parent_process"`
}

func (e *execEvent) of(kind string) bool { return e.Unmapped.Kind == kind }

// readEvents returns the events in a file.
func readEvents(t *testing.T, file string) (list []execEvent) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	for line := range bytes.Lines(text) {
		var e execEvent
		if bytes.HasSuffix(line, []byte("\n")) { // else it's being written
			must(t, json.Unmarshal(line, &e))
			list = append(list, e)
		}
	}
	return list
}

// executed returns the events of executions in a file.
func executed(t *testing.T, file string) []execEvent {
	t.Helper()
	return slices.DeleteFunc(readEvents(t, file), func(e execEvent) bool { return !e.of("exec") })
}

// owners are the processes that may own a session: toolguardd for an ordinary user, and root's toolguard.
var owners = []struct {
	name  string
	uid   uint32
	flags []string
}{
	{"toolguardd", nobodyUID, nil},
	{"root", 0, []string{"--daemon", "none"}},
}

// If the policy wants it, executions are reported: script and interpreter, with truncated and redacted arguments. Denied executions aren't, and
// without the key none are.
func TestExecuted(t *testing.T) {
	state := share(t).state
	script := `./script a "b c"
/usr/bin/env -i /usr/bin/true --password hunter2
OUTSIDE
/usr/bin/true ` + strings.Repeat("y ", 70) + `
/usr/bin/true ` + strings.Repeat("x", 5000) + `
exit 0` // or the shell would become the last one
	session := ""
	for _, h := range owners {
		for _, policy := range []string{recorded, work} {
			j := newJob(t, h.uid, policy, script, h.flags...)
			must(t, errors.Join(os.WriteFile(j.workspace+"/script", []byte("#!/bin/sh -e\nexit 0\n"), 0o755), os.Chmod(j.outside, 0o755)))
			j.start().status()
			if j.count("denial", j.outside) == 0 {
				t.Errorf("%s: %+v", h.name, j.reported())
			}
			list := executed(t, j.events)
			if policy != recorded {
				if len(list) != 0 {
					t.Errorf("%s: without the key %+v is reported", h.name, list)
				}
				continue
			}
			if len(list) != 6 {
				t.Fatalf("%s: %+v", h.name, list)
			}
			shell := list[0]
			for i, want := range []struct{ target, asked, line string }{
				{"/usr/bin/bash", "", "bash -c "},
				{"/usr/bin/dash", "./script", `/bin/sh -e ./script a "b c"`},
				{"/usr/bin/env", "", "/usr/bin/env -i /usr/bin/true --password ***"},
				{"/usr/bin/true", "", "/usr/bin/true --password ***"},
				{"/usr/bin/true", "", "/usr/bin/true" + strings.Repeat(" y", 63) + " …"},
				{"/usr/bin/true", "", "/usr/bin/true xxxxx"},
			} {
				e := list[i]
				got := e.Process.CmdLine
				switch n := len(got); {
				case i == 0:
					got = got[:min(n, len(want.line))]
				case i == 5 && n > 3000 && n < 4200 && strings.HasSuffix(got, "x…"):
					got = got[:len(want.line)]
				}
				if e.Unmapped.Target != want.target || e.Unmapped.Asked != want.asked || got != want.line {
					t.Errorf("%s: %+v, want %+v", h.name, e, want)
				}
				if parent := e.Process.Parent; i > 0 && (parent.PID != shell.Process.PID || parent.Name != "bash") {
					t.Errorf("%s: %+v doesn't have the parent %+v", h.name, e, shell)
				}
			}
			if list[2].Process.PID != list[3].Process.PID {
				t.Errorf("%s: a program that replaces another one has another PID: %+v, %+v", h.name, list[2], list[3])
			}
			if h.uid == nobodyUID {
				session = shell.Unmapped.Session
			}
		}
	}
	list := slices.DeleteFunc(auditOf(t, state, "exec"), func(e seenEvent) bool { return e.Session != session })
	out, code := ask(t, nobodyUID, "events", "--since", "all", "--kind", "exec", "--session", session, "--json")
	if len(list) != 6 || code != 0 || strings.Count(out, "\n") != 6 {
		t.Errorf("the audit has %+v, and its reader gets %s", list, out)
	}
	out, code = ask(t, nobodyUID, "report", session)
	if code != 0 || !strings.Contains(out, "6 programs") {
		t.Errorf("the report: %d, %s", code, out)
	}
}

// However many programs are executed while no process reads the events, a denial among them is reported with the process's parent, though both
// have ended. Executions that aren't reported are counted exactly.
func TestStormOfExecs(t *testing.T) {
	s := share(t)
	const before, after = 60, 10 // records of this number and length exceed the ring buffer
	storm := func(n int) string {
		return fmt.Sprintf("for ((i = 0; i < %d; i++)); do /usr/bin/true %0200d; done\n", n, 0)
	}
	for _, h := range owners {
		j := newJob(t, h.uid, recorded, "echo up >can; read x <go\n"+storm(before)+"sh -c '(read x <OUTSIDE); exit 0'\n"+storm(after)+"echo done >can; read x <go", h.flags...)
		for i, a := range j.Args { // the report is in the output
			if a == "never" {
				j.Args[i] = "always"
			}
		}
		pipe := j.workspace + "/go"
		must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Chown(pipe, int(h.uid), int(h.uid))))
		j.start()
		j.wrote("can", "up")
		reader := j.Process
		if h.uid == nobodyUID {
			reader = s.Process
		}
		must(t, reader.Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = reader.Signal(syscall.SIGCONT) })
		goOn(t, pipe)
		j.wrote("can", "done")
		must(t, reader.Signal(syscall.SIGCONT))
		goOn(t, pipe)
		if got := j.status(); got != 0 {
			t.Errorf("%s: exit status %d", h.name, got)
		}
		reported, counted, denials, lost := 0, uint64(0), 0, uint64(0)
		for _, e := range readEvents(t, j.events) {
			switch {
			case e.of("exec"):
				reported++
			case e.of("gap"):
				counted, lost = counted+e.Unmapped.Execs, lost+e.Count-e.Unmapped.Execs
			case e.of("denial") && e.Unmapped.Target == j.outside:
				denials++
				if p := e.Actor.Process; p.Parent.Name != "sh" || p.Parent.PID == 0 || p.Parent.PID == p.PID || p.Parent.User.UID != fmt.Sprint(h.uid) {
					t.Errorf("%s: %+v doesn't have a shell as its parent", h.name, e)
				}
			}
		}
		if uint64(reported)+counted != 1+before+1+after || reported < 10 || counted < 20 {
			t.Errorf("%s: %d programs are reported and %d counted, of %d", h.name, reported, counted, 1+before+1+after)
		}
		if denials != 1 || lost != 0 {
			t.Errorf("%s: %d denials are reported, and %d lost", h.name, denials, lost)
		}
		if said := j.out.String(); !strings.Contains(said, ": 1 denial (") || strings.Contains(said, "unseen") {
			t.Errorf("%s: the report is %s", h.name, said)
		}
	}
}

// goOn continues a job that reads a fifo.
func goOn(t *testing.T, pipe string) {
	t.Helper()
	must(t, os.WriteFile(pipe, []byte("\n"), 0))
}

// Executions in a nested session are reported to both sessions if either policy wants it.
func TestExecutedWithin(t *testing.T) {
	share(t)
	for _, x := range []struct {
		name, outer, inner string
		want               int
	}{
		{"the outer records", recorded, "audit = \"denials\"\n" + work, 1},
		{"the inner records", work, recorded, 1},
		{"neither records", work, work, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			j := newJob(t, nobodyUID, x.outer+reach(), built+`/toolguard exec --daemon require --policy inner.toml --events inner.log -- uname >said`)
			j.write("inner.toml", x.inner)
			if got := j.start().status(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			for _, file := range []string{j.events, j.workspace + "/inner.log"} {
				list := slices.DeleteFunc(executed(t, file), func(e execEvent) bool { return e.Unmapped.Target != "/usr/bin/uname" })
				if len(list) != x.want {
					t.Errorf("%s: %+v", filepath.Base(file), list)
				}
			}
		})
	}
}

// The host's policy can make executions recorded, whatever the session's policy says, from the start or after a reload.
func TestExecutedForHost(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, work, "echo up >can; read x <go\nuname >said; read x <go")
	must(t, errors.Join(syscall.Mkfifo(j.workspace+"/go", 0o600), os.Chown(j.workspace+"/go", nobodyUID, nobodyUID)))
	j.start()
	j.wrote("can", "up")
	must(t, errors.Join(os.MkdirAll(filepath.Dir(hostFile), 0o755), os.WriteFile(hostFile, []byte("version = 1\naudit = \"exec\"\n"), 0o644)))
	t.Cleanup(func() { _ = os.RemoveAll("/etc/toolguard") })
	next := j.write("../next.toml", "audit = \"denials\"\n"+work)
	if out, err := exec.Command(built+"/toolguard", "sessions", "reload", sessions(t, nobodyUID)[0].ID, "--policy", next).CombinedOutput(); err != nil {
		t.Fatalf("reload: %v\n%s", err, out)
	}
	goOn(t, j.workspace+"/go")
	eventually(t, "the execution is reported", func() bool { return len(executed(t, j.events)) > 0 })
	goOn(t, j.workspace+"/go")
	j.status()
	if list := executed(t, j.events); len(list) != 1 || list[0].Unmapped.Target != "/usr/bin/uname" {
		t.Errorf("%+v", list)
	}
	again := newJob(t, nobodyUID, "audit = \"denials\"\n"+work, "uname >said")
	again.start().status()
	if list := executed(t, again.events); len(list) != 2 {
		t.Errorf("%+v", list)
	}
}
