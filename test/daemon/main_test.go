//go:build linux

package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/daemontest"
)

// The socket of toolguardd, and the ordinary users of the tests.
const (
	socket    = "/run/toolguard/toolguard.sock"
	nobodyUID = 65534
	other     = 65533
)

var must = childtest.Must

// built is the folder of the binaries.
var built string

// shared is the toolguardd of the tests that need none of their own; nil: it isn't running.
var (
	shared  *server
	sharing sync.Mutex
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "2"); err != nil { // also on one processor: parallel tests mostly wait
		panic(err)
	}
	os.Exit(childtest.WithPrograms(func(dir string) int {
		defer endShared()
		built = dir
		return m.Run()
	}, "toolguard", "toolguardd"))
}

// server is a running toolguardd.
type server struct {
	*exec.Cmd
	state string
	log   string // the file of its log
}

func start(state, log string) (*server, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd, err := daemontest.Start(built+"/toolguardd", state, out)
	return &server{cmd, state, log}, err
}

// serve starts a toolguardd for a test that ends it, or has settings or a state of its own.
func serve(t *testing.T, state string) *server {
	t.Helper()
	daemontest.Needs(t)
	endShared()
	s, err := start(state, t.TempDir()+"/log")
	t.Cleanup(func() {
		if err == nil {
			s.stop(syscall.SIGTERM)
		}
		t.Logf("toolguardd's log:\n%s", s.logSince(0))
	})
	must(t, err)
	return s
}

// share returns the toolguardd that tests share. A parallel test calls it after t.Parallel. It fails a test that leaves a session.
func share(t *testing.T) *server {
	t.Helper()
	daemontest.Needs(t)
	sharing.Lock()
	defer sharing.Unlock()
	if shared == nil {
		dir, err := os.MkdirTemp("", "shared-")
		must(t, err)
		s, err := start(dir+"/state", dir+"/log")
		must(t, err)
		shared = s
	}
	before := len(shared.logSince(0))
	t.Cleanup(func() {
		eventually(t, "no session is left", func() bool { return len(sessions(t, 0)) == 0 })
		t.Logf("toolguardd's log:\n%s", shared.logSince(before))
	})
	return shared
}

func endShared() {
	if shared != nil {
		shared.stop(syscall.SIGTERM)
		_ = os.RemoveAll(filepath.Dir(shared.state))
		shared = nil
	}
}

// logSince returns the log after the first bytes.
func (s *server) logSince(bytes int) string {
	text, _ := os.ReadFile(s.log)
	return string(text[bytes:])
}

func (s *server) stop(sig syscall.Signal) { daemontest.Stop(s.Cmd, sig) }

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !childtest.Within(5*time.Minute, is) {
		t.Fatalf("not within five minutes: %s", what)
	}
}

// job is a command of a user's under a policy.
type job struct {
	*exec.Cmd
	t         *testing.T
	workspace string
	events    string
	outside   string // a file outside the workspace, without a rule
	out       bytes.Buffer
}

// newJob prepares a shell command. In addition to policy, it may use the machine's programs and its workspace.
func newJob(t *testing.T, uid uint32, policy, script string, flags ...string) *job {
	t.Helper()
	dir, err := os.MkdirTemp("", "job-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	j := &job{t: t, workspace: dir + "/workspace", events: dir + "/events/log", outside: dir + "/outside"}
	must(t, errors.Join(
		os.Chmod(dir, 0o755), os.Mkdir(j.workspace, 0o755), os.Mkdir(dir+"/events", 0o755),
		os.WriteFile(j.outside, []byte("secret\n"), 0o644),
	))
	j.write("../policy.toml", policy)
	for _, d := range []string{j.workspace, dir + "/events"} {
		must(t, os.Chown(d, int(uid), int(uid)))
	}
	args := append([]string{"exec", "--daemon", "require", "--policy", dir + "/policy.toml", "--events", j.events, "--report", "never"}, flags...)
	j.Cmd = exec.Command(built+"/toolguard", append(args, "--", "bash", "-c", strings.ReplaceAll(script, "OUTSIDE", j.outside))...)
	j.Dir, j.Stdout, j.Stderr, j.WaitDelay = j.workspace, &j.out, &j.out, time.Second
	j.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=/tmp"}
	j.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return j
}

// write writes a policy file for the machine's programs and more.
func (j *job) write(name, more string) string {
	j.t.Helper()
	file := filepath.Join(j.workspace, name)
	must(j.t, os.WriteFile(file, []byte("version = 1\nextends = [\"preset:readonly\"]\n"+strings.ReplaceAll(more, "OUTSIDE", j.outside)), 0o644))
	return file
}

func (j *job) start() *job {
	j.t.Helper()
	must(j.t, j.Start())
	j.t.Cleanup(func() { _ = j.Process.Kill() })
	return j
}

// status waits for the command, and returns its exit status.
func (j *job) status() int {
	j.t.Helper()
	late := time.AfterFunc(10*time.Minute, func() { _ = j.Process.Kill() })
	defer late.Stop()
	_ = j.Wait()
	j.t.Logf("%s%v", &j.out, j.ProcessState)
	return j.ProcessState.ExitCode()
}

// wrote waits until the command has written a text to a file in the workspace.
func (j *job) wrote(name, want string) {
	j.t.Helper()
	eventually(j.t, name+" contains "+want, func() bool {
		text, _ := os.ReadFile(filepath.Join(j.workspace, name))
		return strings.TrimSpace(string(text)) == want
	})
}

// seenEvent has the fields of an event that the tests check.
type seenEvent struct {
	Kind, Reason, Target, Session, Authority, Rule string
	Extra                                          map[string]string
	Removed                                        []string `json:"removed_env"`
}

// reported returns the events of the job.
func (j *job) reported() (list []seenEvent) {
	j.t.Helper()
	for _, e := range childtest.Lines[struct{ Unmapped seenEvent }](j.t, j.events) {
		list = append(list, e.Unmapped)
	}
	return list
}

func parseEvent(t *testing.T, line []byte) seenEvent {
	t.Helper()
	var e struct{ Unmapped seenEvent }
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return e.Unmapped
}

// count counts the events of a kind about a target.
func (j *job) count(kind, target string) (n int) {
	for _, e := range j.reported() {
		if e.Kind == kind && (target == "" || e.Target == target) {
			n++
		}
	}
	return n
}

// sessions returns a user's sessions, or for root all. The test sends the request itself, which is faster than toolguard on an emulated machine.
func sessions(t *testing.T, uid int) (list []api.Session) {
	t.Helper()
	must(t, (&api.Client{Socket: socket}).Do("GET", api.Sessions, nil, &list))
	return slices.DeleteFunc(list, func(s api.Session) bool { return uid != 0 && s.UID != uid })
}

// ask runs toolguard as a user.
func ask(t *testing.T, uid uint32, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(built+"/toolguard", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}
