package session

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec/substitute"
	"github.com/toolguard/toolguard/internal/egress/process"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// runAsProgram makes the test binary the limit stage, or egress, where it's started as one.
func runAsProgram() {
	launch.RunLimitStage()
	if os.Getenv("TOOLGUARD_TEST_EGRESS") != "" {
		if err := process.ServeProxy(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// mac is a substitute for a Mac: sandbox-exec only executes, the log prints what a test wants, and egress is real.
type mac struct {
	t      *testing.T
	dir    string // with the programs, and the last profile
	mode   string // of sandbox-exec
	log    string // the script of the program that reads the log
	tmp    string
	table  func() ([]launch.ProcessRow, error)
	notice []string
	events []event.Event
	mu     sync.Mutex
}

func newMac(t *testing.T) *mac {
	t.Helper()
	must(t, syscall.Setpgid(0, 0)) // the group's other members would be taken for the session's
	tmp := childtest.TempDir(t)
	return &mac{t: t, mode: substitute.Denies, log: "exit 0", tmp: tmp, table: testProcesses(t)}
}

func (m *mac) script(name, text string) string {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	must(m.t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return file
}

// Write receives the events.
func (m *mac) Write(e *event.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, *e)
	return os.WriteFile(fmt.Sprintf("%s/event-%d", m.tmp, len(m.events)), nil, 0o600)
}

// policy compiles a layer that allows what it doesn't declare.
func (m *mac) policy(change func(*policy.Source, *policy.SourceLayer)) *policy.Compiled {
	m.t.Helper()
	l := policy.SourceLayer{Authority: policy.Session}
	src := &policy.Source{Name: "test", Workspace: m.tmp, Home: "/", TmpDir: m.tmp}
	if change != nil {
		change(src, &l)
	}
	src.Layers = append(src.Layers, l)
	return policytest.CompileSource(m.t, src, hostfs.Machine{})
}

func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	must(t, err)
	return path
}

// run runs a script under a policy.
func (m *mac) run(c *policy.Compiled, cfg Config, script string, args ...string) (Result, error) {
	m.t.Helper()
	sandboxExec := substitute.Write(m.t, m.mode)
	m.dir = filepath.Dir(sandboxExec)
	self, err := os.Executable()
	must(m.t, err)
	b, err := backend.Seatbelt(backend.Mac{SandboxExec: sandboxExec, Egress: m.script("egress", "TOOLGUARD_TEST_EGRESS=1 exec '"+self+"'"), Home: "/"})
	must(m.t, err)
	cfg.Policy, cfg.System, cfg.Backend, cfg.Daemon = c, hostfs.Machine{}, "seatbelt", "none"
	if cfg.Argv == nil {
		cfg.Argv = append([]string{"sh", "-c", script, "sh"}, args...)
	}
	if cfg.Env == nil {
		cfg.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	}
	cfg.Notice = func(s string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.notice = append(m.notice, s)
	}
	s := &Session{Tmp: m.tmp}
	system := macSystem{cat: find(m.t, "cat"), yes: find(m.t, "true"), log: m.script("log", m.log), processes: m.table}
	return s.runSeatbelt(cfg, &b, system)
}

// output returns what a script has written into a file of the TMPDIR.
func (m *mac) output() string {
	m.t.Helper()
	text, err := os.ReadFile(m.tmp + "/out")
	must(m.t, err)
	return strings.TrimSpace(string(text))
}

// The command has its arguments, variables, folder, descriptors and exit status, and no others.
func TestSeatbeltCommand(t *testing.T) {
	m := newMac(t)
	fds := make([]int, 2)
	must(t, syscall.Pipe(fds))
	for _, fd := range fds { // not closed on exec: as if they were inherited
		defer syscall.Close(fd)
	}
	c := m.policy(func(_ *policy.Source, l *policy.SourceLayer) {
		l.Env = []policy.EnvRule{{Name: "KEPT", Read: true}, {Name: "PATH", Read: true}}
	})
	cfg := Config{PassFDs: fds[1:], Env: []string{"PATH=" + os.Getenv("PATH"), "KEPT=yes", "SECRET=no"}}
	r, err := m.run(c, cfg, `echo "$1 $KEPT $SECRET $TMPDIR $(pwd)" >"$TMPDIR/out"; echo passed >&`+strconv.Itoa(fds[1])+`; (: <&`+strconv.Itoa(fds[0])+`) 2>/dev/null && exit 9; exit 7`, "an arg")
	here, _ := os.Getwd()
	if err != nil || r.Code != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
	if want := "an arg yes  " + m.tmp + " " + here; m.output() != want {
		t.Errorf("%q, want %q", m.output(), want)
	}
	buf := make([]byte, 20)
	if n, err := syscall.Read(fds[0], buf); err != nil || string(buf[:n]) != "passed\n" {
		t.Errorf("the passed descriptor: %q, %v", buf[:n], err)
	}
	if !slices.Equal(r.RemovedEnv, []string{"SECRET"}) {
		t.Errorf("removed: %q", r.RemovedEnv)
	}
	profile, err := os.ReadFile(m.dir + "/profile")
	if err != nil || !strings.HasPrefix(string(profile), "(version 1)\n") || !strings.Contains(string(profile), `(deny default (with message "toolguard-session-`) {
		t.Errorf("%s, %v", profile, err)
	}
	if left, err := filepath.Glob(m.tmp + "/canary-*"); err != nil || left != nil {
		t.Error(left, err)
	}
}

// A signal that ends the command gives 128+N, and signals to toolguard are passed on.
func TestSeatbeltSignals(t *testing.T) {
	m := newMac(t)
	if r, err := m.run(m.policy(nil), Config{}, "kill -KILL $$"); err != nil || r.Code != 137 {
		t.Errorf("%+v, %v", r, err)
	}
	go func() {
		for _, err := os.Stat(m.tmp + "/ready"); err != nil; _, err = os.Stat(m.tmp + "/ready") {
			time.Sleep(5 * time.Millisecond)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	}()
	if r, err := m.run(m.policy(nil), Config{}, `trap 'exit 5' USR1; : >"$TMPDIR/ready"; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done`); err != nil || r.Code != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The limits of a process are set, hard and soft, for the command alone.
func TestSeatbeltLimits(t *testing.T) {
	m := newMac(t)
	c := m.policy(func(s *policy.Source, _ *policy.SourceLayer) {
		s.Limits = policy.Limits{OpenFiles: policy.Count{N: 40}, FileSize: policy.Bytes{N: 1 << 20}}
	})
	r, err := m.run(c, Config{}, `echo "$(ulimit -n) $(ulimit -Hn) $(ulimit -f)" >"$TMPDIR/out"; [ "$(id -u)" = 0 ] || { ulimit -n 41 2>/dev/null && exit 9; }; dd if=/dev/zero of="$TMPDIR/big" bs=65536 count=32 2>/dev/null; exit 3`)
	if err != nil || r.Code != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := m.output(); got != "40 40 2048" && got != "40 40 1024" { // in units of 512 or 1,024 bytes
		t.Error(got)
	}
	if info, err := os.Stat(m.tmp + "/big"); err != nil || info.Size() > 1<<20 {
		t.Error(info, err)
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil || now.Cur <= 40 {
		t.Error(now, err)
	}
}

// A session ends when its wall time is up, and its background processes with it.
func TestSeatbeltEnds(t *testing.T) {
	m := newMac(t)
	c := m.policy(func(s *policy.Source, _ *policy.SourceLayer) {
		s.Limits = policy.Limits{WallTime: policy.Span{D: 300 * time.Millisecond}}
	})
	began := time.Now()
	r, err := m.run(c, Config{}, "sleep 60")
	if err != nil || r.Code != 143 || time.Since(began) > 30*time.Second || len(r.Denials) != 1 || r.Denials[0].Rule != "limits.wall_time" {
		t.Errorf("%+v, %v after %s", r, err, time.Since(began))
	}
	r, err = m.run(m.policy(nil), Config{}, `sleep 60 & echo $! >"$TMPDIR/out"; exit 2`)
	pid, _ := strconv.Atoi(m.output())
	if err != nil || r.Code != 2 || r.Orphans != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	gone := func() bool {
		state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
	}
	if pid == 0 || !gone() {
		t.Errorf("process %d remains", pid)
	}
	if !slices.ContainsFunc(m.notice, func(s string) bool { return strings.Contains(s, "1 process that the command had left") }) {
		t.Errorf("%q", m.notice)
	}
}

// Nothing starts where macOS doesn't confine, or where the program may not be executed.
func TestSeatbeltRejects(t *testing.T) {
	for mode, want := range map[string]string{
		substitute.Open: "doesn't deny on this machine", substitute.Outer: "outer sandbox", substitute.Rejects: "doesn't accept the profile",
	} {
		m := newMac(t)
		m.mode = mode
		_, err := m.run(m.policy(nil), Config{}, `: >"$TMPDIR/started"`)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, sandboxexec.ErrOuter) != (mode == substitute.Outer) {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := os.Stat(m.tmp + "/started"); err == nil {
			t.Errorf("%s: the command was started", mode)
		}
	}
	m := newMac(t)
	prog := filepath.Join(m.tmp, "prog")
	must(t, os.WriteFile(prog, []byte("#!/bin/sh\nexit 4\n"), 0o755))
	for caps, want := range map[policy.Caps]string{policy.AllCaps: "", policy.Read: "fs.2 (p.toml:4:1)"} {
		c := m.policy(func(_ *policy.Source, l *policy.SourceLayer) {
			l.FS = []policy.FSRule{{Path: "/", Caps: policy.AllCaps}, {Path: prog, Caps: caps, Position: policy.Position{File: "p.toml", Line: 4, Col: 1}}}
		})
		var denied *launch.NotExecutable
		r, err := m.run(c, Config{Argv: []string{prog}}, "")
		if errors.As(err, &denied) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && r.Code != 4 {
			t.Errorf("%s: %+v, %v", caps, r, err)
		}
	}
	var missing *launch.NotFound
	if _, err := m.run(m.policy(nil), Config{Argv: []string{"no-such-command"}}, ""); !errors.As(err, &missing) {
		t.Error(err)
	}
	var limits *NotEnforceable
	c := m.policy(func(s *policy.Source, _ *policy.SourceLayer) { s.Limits = policy.Limits{Pids: policy.Count{N: 10}} })
	if _, err := m.run(c, Config{}, "true"); !errors.As(err, &limits) || limits.Report.Blocking[0].ID != "limits.pids" || !strings.Contains(limits.Report.Blocking[0].Why, "control groups") {
		t.Error(err)
	}
}

// What the unified log reports of the session is an event with the rule and the grant; what it reports of others isn't.
func TestSeatbeltDenials(t *testing.T) {
	m := newMac(t)
	secret := filepath.Join(m.tmp, "secret")
	c := m.policy(func(_ *policy.Source, l *policy.SourceLayer) {
		l.FS = []policy.FSRule{{Path: "/", Caps: policy.AllCaps}, {Path: secret, Position: policy.Position{File: "p.toml", Line: 7, Col: 1}}}
	})
	// The tag is the profile's. A line without it is the session's if its process is.
	m.log = `echo 'Filtering the log data'
folder=${0%/*}
while [ ! -e '` + m.tmp + `/pid' ]; do sleep 0.01; done
tag=$(sed -n 's/.*(with message "\(.*\)").*/\1/p' "$folder/profile")
at='2026-09-18 06:19:41.380 E  kernel[0:5f489] (Sandbox)'
echo "$at Sandbox: other(1) deny(1) file-read-data ` + secret + `"
echo "$at Sandbox: other(1) deny(1) file-read-data ` + secret + ` toolguard-session-0000000000000001"
printf '%s\n' "$at Sandbox: cat(999999) deny(1) file-read-data ` + secret + `" "$tag"
echo "$at Sandbox: cat($(cat '` + m.tmp + `/pid')) deny(1) file-write-create ` + secret + `"
exec sleep 60`
	q := event.NewQueue(m)
	r, err := m.run(c, Config{Events: q}, `echo $$ >"$TMPDIR/pid.new"; mv "$TMPDIR/pid.new" "$TMPDIR/pid"; until [ -e "$TMPDIR/event-3" ]; do sleep 0.01; done`)
	if err != nil || r.Code != 0 || r.Total != 2 || !r.Visible {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, capability := range []string{"read", "create"} {
		d := r.Denials[i]
		if d.Capability != capability || d.Target != secret || d.Rule != "fs.2" || d.Place != "p.toml:7:1" || d.Extra["evidence"] != "oslog" || d.Extra["completeness"] != "best_effort" ||
			!strings.Contains(d.Suggest, capability+" = true") {
			t.Errorf("%+v", d)
		}
	}
	q.Close()
	var kinds []event.Kind
	for _, e := range m.events {
		kinds = append(kinds, e.Kind)
	}
	if want := []event.Kind{event.SessionStart, event.Denial, event.Denial, event.SessionEnd}; !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}
	if e := m.events[len(m.events)-1]; e.Exit == nil || e.Exit.Denials != 2 || e.Mechanism != "seatbelt" {
		t.Errorf("%+v", e)
	}
}

// Programs reach granted hosts through egress, by the variables that the session has, and each denied host is reported.
func TestSeatbeltEgress(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	m := newMac(t)
	c := m.policy(func(_ *policy.Source, l *policy.SourceLayer) {
		l.Net = []policy.NetRule{
			{Host: "localhost", Scheme: "http", Port: port, Allow: true},
			{Host: "evil.test", Position: policy.Position{File: "p.toml", Line: 9, Col: 1}},
		}
	})
	r, err := m.run(c, Config{}, fmt.Sprintf(`curl -s http://localhost:%d/ >"$TMPDIR/out"; curl -s -o /dev/null -w ' %%{http_code}' http://evil.test/ >>"$TMPDIR/out"`, port))
	if err != nil || r.Code != 0 || m.output() != "served 403" {
		t.Fatalf("%+v, %v, %q", r, err, m.output())
	}
	if len(r.Denials) != 1 || r.Denials[0].Rule != "net.2" || r.Denials[0].Place != "p.toml:9:1" || r.Denials[0].Target != "http://evil.test:80/" {
		t.Errorf("%+v", r.Denials)
	}
}
