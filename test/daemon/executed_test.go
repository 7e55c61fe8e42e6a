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

// recorded is a policy that has recorded what is executed.
const recorded = "audit = \"exec\"\n" + work

// toldExec is what these tests look at of an event.
type toldExec struct {
	Count    uint64
	Process  toldProcess                   // what was executed
	Actor    struct{ Process toldProcess } // who was refused something
	Unmapped struct {
		Kind, Session, Target, Asked, Mechanism string
		Execs                                   uint64
		Extra                                   map[string]string
	}
}

type toldProcess struct {
	PID     int
	CmdLine string `json:"cmd_line"`
	Parent  struct {
		PID  int
		Name string
		User struct{ UID string }
	} `json:"parent_process"`
}

func (e *toldExec) of(kind string) bool { return e.Unmapped.Kind == kind }

// allTold are the events in a file.
func allTold(t *testing.T, file string) (list []toldExec) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	for line := range bytes.Lines(text) {
		var e toldExec
		if bytes.HasSuffix(line, []byte("\n")) { // else it's being written
			must(t, json.Unmarshal(line, &e))
			list = append(list, e)
		}
	}
	return list
}

// executed are the events in a file that tell of programs.
func executed(t *testing.T, file string) []toldExec {
	t.Helper()
	return slices.DeleteFunc(allTold(t, file), func(e toldExec) bool { return !e.of("exec") })
}

// holders are who may hold a session: toolguardd, an ordinary user's, and root himself.
var holders = []struct {
	name  string
	uid   uint32
	flags []string
}{
	{"toolguardd", nobody, nil},
	{"root", 0, []string{"--daemon", "none"}},
}

// Where a policy asks for it what is executed is told, script and interpreter, with its arguments as far as they are told and without their
// secrets; what is refused isn't, and without the key nothing is.
func TestExecuted(t *testing.T) {
	state := share(t).state
	script := `./script a "b c"
/usr/bin/env -i /usr/bin/true --password hunter2
OUTSIDE
/usr/bin/true ` + strings.Repeat("y ", 70) + `
/usr/bin/true ` + strings.Repeat("x", 5000) + `
exit 0` // or the shell would become the last one
	session := ""
	for _, h := range holders {
		for _, policy := range []string{recorded, work} {
			j := newJob(t, h.uid, policy, script, h.flags...)
			must(t, errors.Join(os.WriteFile(j.workspace+"/script", []byte("#!/bin/sh -e\nexit 0\n"), 0o755), os.Chmod(j.outside, 0o755)))
			j.start().status()
			if j.count("denial", j.outside) == 0 {
				t.Errorf("%s: %+v", h.name, j.told())
			}
			list := executed(t, j.events)
			if policy != recorded {
				if len(list) != 0 {
					t.Errorf("%s: nobody asks, and %+v is told", h.name, list)
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
					t.Errorf("%s: %+v isn't said to be started by %+v", h.name, e, shell)
				}
			}
			if list[2].Process.PID != list[3].Process.PID {
				t.Errorf("%s: what replaces a program is another process: %+v, %+v", h.name, list[2], list[3])
			}
			if h.uid == nobody {
				session = shell.Unmapped.Session
			}
		}
	}
	list := slices.DeleteFunc(auditOf(t, state, "exec"), func(e told) bool { return e.Session != session })
	out, code := ask(t, nobody, "events", "--since", "all", "--kind", "exec", "--session", session, "--json")
	if len(list) != 6 || code != 0 || strings.Count(out, "\n") != 6 {
		t.Errorf("the audit has %+v, and its reader gets %s", list, out)
	}
	out, code = ask(t, nobody, "report", session)
	if code != 0 || !strings.Contains(out, "6 programs") {
		t.Errorf("the report: %d, %s", code, out)
	}
}

// However much is executed while nobody reads, what is refused amid it is told, with the process's parent, though both are gone; and what
// isn't told of programs is counted to the last one, as such.
func TestStormOfExecs(t *testing.T) {
	s := share(t)
	const before, after = 60, 10 // in so many records of that length there's more than a ring holds
	storm := func(n int) string {
		return fmt.Sprintf("for ((i = 0; i < %d; i++)); do /usr/bin/true %0200d; done\n", n, 0)
	}
	for _, h := range holders {
		j := newJob(t, h.uid, recorded, "echo up >can; read x <go\n"+storm(before)+"sh -c '(read x <OUTSIDE); exit 0'\n"+storm(after)+"echo done >can; read x <go", h.flags...)
		for i, a := range j.Args { // so that it can be seen what goes to standard error
			if a == "never" {
				j.Args[i] = "always"
			}
		}
		pipe := j.workspace + "/go"
		must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Chown(pipe, int(h.uid), int(h.uid))))
		j.start()
		j.wrote("can", "up")
		reader := j.Process
		if h.uid == nobody {
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
		told, counted, denials, lost := 0, uint64(0), 0, uint64(0)
		for _, e := range allTold(t, j.events) {
			switch {
			case e.of("exec"):
				told++
			case e.of("gap"):
				counted, lost = counted+e.Unmapped.Execs, lost+e.Count-e.Unmapped.Execs
			case e.of("denial") && e.Unmapped.Target == j.outside:
				denials++
				if p := e.Actor.Process; p.Parent.Name != "sh" || p.Parent.PID == 0 || p.Parent.PID == p.PID || p.Parent.User.UID != fmt.Sprint(h.uid) {
					t.Errorf("%s: %+v isn't said to be started by a shell", h.name, e)
				}
			}
		}
		if uint64(told)+counted != 1+before+1+after || told < 10 || counted < 20 {
			t.Errorf("%s: %d programs are told of and %d counted, of %d", h.name, told, counted, 1+before+1+after)
		}
		if denials != 1 || lost != 0 {
			t.Errorf("%s: %d denials are told, and %d lost", h.name, denials, lost)
		}
		if said := j.out.String(); !strings.Contains(said, ": 1 denial (") || strings.Contains(said, "unseen") {
			t.Errorf("%s: the report is %s", h.name, said)
		}
	}
}

// goOn lets a job that reads a fifo go on.
func goOn(t *testing.T, pipe string) {
	t.Helper()
	must(t, os.WriteFile(pipe, []byte("\n"), 0))
}

// Of a session within another one is told what either has recorded, to both.
func TestExecutedWithin(t *testing.T) {
	share(t)
	for _, x := range []struct {
		name, outer, inner string
		want               int
	}{
		{"the outer asks", recorded, "audit = \"denials\"\n" + work, 1},
		{"the inner asks", work, recorded, 1},
		{"nobody asks", work, work, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			j := newJob(t, nobody, x.outer+reach(), built+`/toolguard exec --daemon require --policy inner.toml --events inner.log -- uname >said`)
			j.write("inner.toml", x.inner)
			if got := j.start().status(); got != 0 {
				t.Fatalf("exit status %d", got)
			}
			for _, file := range []string{j.events, j.workspace + "/inner.log"} {
				list := slices.DeleteFunc(executed(t, file), func(e toldExec) bool { return e.Unmapped.Target != "/usr/bin/uname" })
				if len(list) != x.want {
					t.Errorf("%s: %+v", filepath.Base(file), list)
				}
			}
		})
	}
}

// The host's policy has recorded what is executed, whatever the session's says, from the start on and with any other policy; and a session
// that gets another policy is recorded by that.
func TestExecutedForHost(t *testing.T) {
	share(t)
	j := newJob(t, nobody, work, "echo up >can; read x <go\nuname >said; read x <go")
	must(t, errors.Join(syscall.Mkfifo(j.workspace+"/go", 0o600), os.Chown(j.workspace+"/go", nobody, nobody)))
	j.start()
	j.wrote("can", "up")
	must(t, errors.Join(os.MkdirAll(filepath.Dir(hostFile), 0o755), os.WriteFile(hostFile, []byte("version = 1\naudit = \"exec\"\n"), 0o644)))
	t.Cleanup(func() { _ = os.RemoveAll("/etc/toolguard") })
	next := j.write("../next.toml", "audit = \"denials\"\n"+work)
	if out, err := exec.Command(built+"/toolguard", "sessions", "reload", sessions(t, nobody)[0].ID, "--policy", next).CombinedOutput(); err != nil {
		t.Fatalf("reload: %v\n%s", err, out)
	}
	goOn(t, j.workspace+"/go")
	eventually(t, "it's told", func() bool { return len(executed(t, j.events)) > 0 })
	goOn(t, j.workspace+"/go")
	j.status()
	if list := executed(t, j.events); len(list) != 1 || list[0].Unmapped.Target != "/usr/bin/uname" {
		t.Errorf("%+v", list)
	}
	again := newJob(t, nobody, "audit = \"denials\"\n"+work, "uname >said")
	again.start().status()
	if list := executed(t, again.events); len(list) != 2 {
		t.Errorf("%+v", list)
	}
}
