//go:build linux

package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
)

// isolatedDaemon is a toolguardd in a mount namespace with a separate /run/toolguard, except the state of auditing, which all processes
// share. As in its unit, it also has a network namespace.
type isolatedDaemon struct {
	t   *testing.T
	cmd *exec.Cmd
	log string // the file of its output
}

// emptyRun mounts an empty /run/toolguard, except for the state of auditing: the kernel has one for all mount namespaces.
const emptyRun = `mkdir -p /run/toolguard/audit; chmod 755 /run/toolguard; chmod 700 /run/toolguard/audit; exec 9</run/toolguard/audit
mount -t tmpfs -o mode=755 none /run/toolguard; mkdir -m 700 /run/toolguard/audit; mount -c --bind /proc/self/fd/9 /run/toolguard/audit; exec 9<&-
`

const isolate = `set -e; ` + emptyRun + `exec setpriv --bounding-set "$2" -- "$0" --state "$1/state" 2>"$1/log"`

// capabilities returns those of the packaged unit, in the notation of setpriv.
func capabilities(t *testing.T) string {
	t.Helper()
	unit, err := os.ReadFile("../../packaging/systemd/toolguardd.service")
	must(t, err)
	_, rest, _ := strings.Cut(string(unit), "\nCapabilityBoundingSet=")
	line, _, _ := strings.Cut(strings.ToLower(rest), "\n")
	return "-all," + strings.ReplaceAll(strings.ReplaceAll(line, "cap_", "+"), " ", ",")
}

// startIsolatedDaemon starts toolguardd.
func startIsolatedDaemon(t *testing.T) *isolatedDaemon {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("TOOLGUARD_VM") != "" {
		t.Skip("needs root, and a machine without toolguardd")
	}
	needs(t, "unshare", "nsenter", "setpriv", "mount", "python3")
	if abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); int(abi) < 7 {
		t.Skipf("needs Landlock's audit records (ABI 7), and this kernel has ABI %d", int(abi))
	}
	dir := t.TempDir()
	a := &isolatedDaemon{t, exec.Command("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", isolate, filepath.Join(filepath.Dir(binary), "daemon/toolguardd"), dir, capabilities(t)), dir + "/log"}
	a.cmd.Stderr = os.Stderr
	must(t, a.cmd.Start())
	t.Cleanup(func() {
		a.stop(syscall.SIGTERM)
		text, _ := os.ReadFile(a.log)
		t.Logf("toolguardd's log:\n%s", text)
	})
	if !eventually(func() bool { return a.client().Do("GET", api.Status, nil, nil) == nil }) {
		t.Fatal("toolguardd doesn't answer")
	}
	must(t, os.Chmod(a.client().Socket, 0o666)) // instead of a group
	return a
}

func (a *isolatedDaemon) client() *api.Client {
	return &api.Client{Socket: fmt.Sprintf("/proc/%d/root%s", a.cmd.Process.Pid, api.Socket)}
}

func (a *isolatedDaemon) stop(sig syscall.Signal) {
	if a.cmd.ProcessState == nil {
		_ = a.cmd.Process.Signal(sig)
		_ = a.cmd.Wait()
	}
}

// command is a user's command in toolguardd's mount namespace. With login the user has logged in.
func (a *isolatedDaemon) command(p fixture, login bool, argv ...string) *exec.Cmd {
	enter := `cd "$0" && uid=$1 && shift && exec setpriv --reuid $uid --regid $uid --clear-groups -- "$@"`
	if login {
		enter = `echo "$1" >/proc/self/loginuid && ` + enter
	}
	root := fixture{user{Name: "root"}, p.home, p.workspace}
	all := append([]string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", a.cmd.Process.Pid), "sh", "-c", enter, p.workspace, fmt.Sprint(p.user.ID)}, argv...)
	return root.command(all...)
}

// exec is a shell command under toolguard.
func (a *isolatedDaemon) exec(p fixture, login bool, flags []string, script string) *exec.Cmd {
	return a.command(p, login, append(append([]string{binary, "exec", "--policy", "../policy.toml"}, flags...), "--", "sh", "-c", script)...)
}

// denied has the fields of an event that the tests compare.
type denied struct {
	Kind, Target, Reason, Rule, Suggest, Mechanism string

	Policy struct{ Name, UID string } `json:"-"`
}

func events(t *testing.T, file, kind string) (list []denied) {
	t.Helper()
	type event struct {
		Unmapped denied
		Policy   struct{ Name, UID string }
	}
	for _, e := range childtest.Lines[event](t, file) {
		if e.Unmapped.Policy = e.Policy; e.Unmapped.Kind == kind {
			list = append(list, e.Unmapped)
		}
	}
	return list
}

// userFixture is an ordinary user's workspace with a policy, and a file next to it that nothing grants.
func userFixture(t *testing.T, id int) (p fixture, outside string) {
	t.Helper()
	p = newFixture(t, user{Name: "nobody", ID: id})
	p.write(t, "../policy.toml", "version = 1\nextends = [\"preset:readonly\"]\n[access]\nsecrets = false\n")
	p.write(t, "../outside", "secret")
	p.write(t, "inside", "open")
	return p, filepath.Join(filepath.Dir(p.workspace), "outside")
}

// toolguardd reports the denials of an ordinary user's session under Landlock, whether the user has logged in or not. Without it two lines say
// that denials aren't reported, and name the remedy. A granted operation isn't a denial.
func TestDaemonReportsDenials(t *testing.T) {
	a := startIsolatedDaemon(t)
	const script = `cat ../outside
python3 -c 'import ctypes, time; ctypes.CDLL(None).unshare(0x20000); time.sleep(1)'
(sleep 0.2; cat ../outside) & wait; exit 3`
	for _, login := range []bool{false, true} {
		t.Run(fmt.Sprintf("logged in: %v", login), func(t *testing.T) {
			p, outside := userFixture(t, 65534)
			out := run(t, a.exec(p, login, []string{"--events", p.home + "/events"}, script))
			if out.code != 3 || !strings.Contains(out.stderr, "toolguard: 3 denials (policy policy)") || !strings.Contains(out.stderr, `path = "`+outside+`"`) {
				t.Errorf("%+v", out)
			}
			got := events(t, p.home+"/events", "denial")
			grant := "[[access.fs]]\npath = \"" + outside + "\"\nread = true\n"
			if len(got) != 3 || got[0].Target != outside || got[0].Reason != "outside_workspace" || got[0].Suggest != grant ||
				got[0].Mechanism != "landlock:fs.read_file" || got[1].Rule != "seccomp.namespaces" || got[2].Target != outside {
				t.Errorf("%+v", got)
			}
			if out := run(t, a.command(p, login, binary, "why", "1")); out.code != 0 || !strings.Contains(out.stdout, outside) {
				t.Errorf("why: %+v", out)
			}
			if out := run(t, a.command(p, login, binary, "allow", "--yes", "--policy", "../policy.toml", "1")); out.code != 0 {
				t.Errorf("allow: %+v", out)
			}
			out = run(t, a.exec(p, login, nil, "cat ../outside inside; exit 3"))
			if out.code != 3 || out.stdout != "secretopen" || out.stderr != "" {
				t.Errorf("granted: %+v", out)
			}
		})
	}
	p, _ := userFixture(t, 65534)
	for remedy, cmd := range map[string]*exec.Cmd{
		"it isn't set up here: docs/daemon.md": p.command(binary, "exec", "--policy", "../policy.toml", "--", "cat", "../outside"),
		"leave out --daemon none":              a.exec(p, false, []string{"--daemon", "none"}, "cat ../outside"),
	} {
		if out := run(t, cmd); out.code != 1 || strings.Count(out.stderr, "\ntoolguard: ") != 1 || !strings.Contains(out.stderr, "can't be seen here (toolguardd reads ordinary users' denials") ||
			!strings.Contains(out.stderr, remedy) {
			t.Errorf("without toolguardd: %+v", out)
		}
	}
}

// A denied system call of a user who has logged in is attributed as long as the process exists. If it ends at once, the denial is reported,
// or the report states that denials may be missing.
func TestDaemonReportsCalls(t *testing.T) {
	a := startIsolatedDaemon(t)
	p, _ := userFixture(t, 65534)
	for range 5 {
		out := run(t, a.exec(p, true, nil, "unshare -m true"))
		if !strings.Contains(out.stderr, "always on: no new namespaces") && !strings.Contains(out.stderr, "some denials may have gone by unseen: system calls were denied") {
			t.Errorf("%+v", out)
		}
	}
}

// A session gets its own denials, and neither those of another one of the same user's nor another user's. A client without a session gets
// nothing.
func TestDaemonReportsNoOthers(t *testing.T) {
	a := startIsolatedDaemon(t)
	other, _ := userFixture(t, 65533)
	const follow = `import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect("/run/toolguard/toolguard.sock")
s.sendall(b"GET /v1/denials HTTP/1.1\r\nHost: x\r\n\r\n")
f = s.makefile("rb")
while b'"begin"' not in f.readline(): pass
print("begins", flush=True)
sys.stdin.read()
s.sendall(b"\n")
print(f.read().decode())`
	type follower struct {
		cmd    *exec.Cmd
		in     io.Closer
		output *strings.Builder
		read   chan struct{} // closed when all is
	}
	var followers []follower
	for _, p := range []fixture{other, {user{Name: "nobody", ID: 65534}, other.home, other.workspace}} {
		f := follower{cmd: a.command(p, false, "python3", "-c", follow), output: &strings.Builder{}, read: make(chan struct{})}
		out, err := f.cmd.StdoutPipe()
		must(t, err)
		f.in, err = f.cmd.StdinPipe()
		must(t, err)
		must(t, f.cmd.Start())
		defer f.in.Close()
		if n, err := out.Read(make([]byte, 100)); n == 0 { // it has begun
			t.Fatalf("user %d can't subscribe: %v", p.user.ID, err)
		}
		go func() { _, _ = io.Copy(f.output, out); close(f.read) }()
		followers = append(followers, f)
	}
	type one struct {
		fixture
		outside string
		cmd     *exec.Cmd
		output  *strings.Builder
	}
	var sessions []one
	for _, id := range []int{65534, 65534, 65533} {
		p, outside := userFixture(t, id)
		s := one{p, outside, a.exec(p, false, []string{"--events", p.home + "/events"}, "for i in 1 2 3 4 5; do cat ../outside; sleep 0.1; done; exit 0"), &strings.Builder{}}
		s.cmd.Stderr = s.output
		must(t, s.cmd.Start())
		sessions = append(sessions, s)
	}
	for _, s := range sessions {
		must(t, s.cmd.Wait())
		list := events(t, s.home+"/events", "denial")
		if len(list) == 0 || !strings.Contains(s.output.String(), "5 denials") {
			t.Errorf("its output is %s", s.output)
		}
		for _, e := range list {
			if e.Target != s.outside {
				t.Errorf("a session gets another one's: %+v", e)
			}
		}
	}
	for _, f := range followers {
		must(t, f.in.Close())
		<-f.read
		must(t, f.cmd.Wait())
		if !strings.Contains(f.output.String(), `"totals"`) || strings.Contains(f.output.String(), `"denial"`) {
			t.Errorf("a subscriber without a session gets %s", f.output)
		}
	}
}

// A confined process can't subscribe, whatever the policy allows.
func TestDaemonRejectsConfined(t *testing.T) {
	a := startIsolatedDaemon(t)
	p, _ := userFixture(t, 65534)
	p.write(t, "../policy.toml", "version = 1\n[access]\ndefault = \"allow\"\nprotect = false\nsecrets = false\n")
	p.write(t, "ask.py", `import socket
s = socket.socket(socket.AF_UNIX)
s.connect("/run/toolguard/toolguard.sock")
s.sendall(b"GET /v1/denials HTTP/1.1\r\nHost: x\r\n\r\n")
for line in s.makefile("rb"):
    if line.startswith(b"{"): break
print(line.decode())
`)
	if out := run(t, a.command(p, false, "python3", "ask.py")); out.code != 0 || !strings.Contains(out.stdout, `"begin"`) {
		t.Errorf("unconfined: %+v", out)
	}
	if out := run(t, a.exec(p, false, []string{"--quiet"}, "(setsid python3 ask.py) & wait")); out.code != 0 || !strings.Contains(out.stdout, "may only begin a nested session") ||
		strings.Contains(out.stdout, `"begin"`) {
		t.Errorf("confined: %+v", out)
	}
}

// A program that is denied something ten thousand times makes no ten thousand events, and none is lost unless it's counted.
func TestDaemonReportsFlood(t *testing.T) {
	a := startIsolatedDaemon(t)
	for _, files := range []int{1, 100} {
		p, _ := userFixture(t, 65534)
		for i := range files {
			p.write(t, fmt.Sprintf("../outside%d", i), "secret")
		}
		a.flood(p, files)
	}
}

// flood has a program open some files again and again.
func (a *isolatedDaemon) flood(p fixture, files int) {
	t := a.t
	t.Helper()
	const n = 10000
	p.write(t, "flood.py", fmt.Sprintf("import os\nfor i in range(%d):\n  try: os.open('../outside%%d' %% (i %% %d), 0)\n  except OSError: pass\n", n, files))
	out := run(t, a.exec(p, false, []string{"--events", p.home + "/events", "--report", "never"}, "python3 flood.py"))
	if out.code != 0 {
		t.Fatalf("%+v", out)
	}
	list := events(t, p.home+"/events", "denial")
	text, err := os.ReadFile(p.home + "/events")
	must(t, err)
	total, lost, exact := counts(t, string(text))
	t.Logf("%d files: %d events, %d denials, %d lost", files, len(list), total, lost)
	if len(list) > n/2 || exact && total+lost < n || total+lost > n+10 {
		t.Errorf("%d events of %d denials, and %d lost, of %d", len(list), total, lost, n)
	}
}

// counts returns the numbers of denials in the events and of lost ones, and whether that's all of them: what other programs are denied can keep the
// kernel from keeping them.
func counts(t *testing.T, text string) (total, lost uint64, exact bool) {
	t.Helper()
	exact = true
	for line := range strings.Lines(text) {
		var e struct {
			Count    uint64
			Unmapped struct {
				Kind  string
				Extra struct{ Exact string }
			}
		}
		must(t, json.Unmarshal([]byte(line), &e))
		switch e.Unmapped.Kind {
		case "denial":
			total += max(1, e.Count)
		case "gap":
			lost += e.Count
			exact = exact && e.Unmapped.Extra.Exact == "true"
		}
	}
	return total, lost, exact
}

// When toolguardd is killed the session goes on, enforced, and its report states that denials may be missing.
func TestDaemonIsKilled(t *testing.T) {
	a := startIsolatedDaemon(t)
	p, _ := userFixture(t, 65534)
	cmd := a.exec(p, false, []string{"--events", p.home + "/events"}, "cat ../outside; touch \"$TMPDIR/x\"; read x; cat ../outside; exit 4")
	in, err := cmd.StdinPipe()
	must(t, err)
	var output strings.Builder
	cmd.Stderr = &output
	must(t, cmd.Start())
	if !eventually(func() bool {
		text, _ := os.ReadFile(p.home + "/events")
		return strings.Contains(string(text), `"kind":"denial"`)
	}) {
		t.Fatal("no denial is reported")
	}
	a.stop(syscall.SIGKILL)
	if !eventually(func() bool { return len(events(t, p.home+"/events", "gap")) == 1 }) {
		t.Error("no gap is reported")
	}
	must(t, in.Close())
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 4 || strings.Count(output.String(), "Permission denied") != 2 ||
		!strings.Contains(output.String(), "1 denial (") || !strings.Contains(output.String(), "some denials may have gone by unseen: toolguardd ended meanwhile") {
		t.Errorf("exit status %d, its output is %s", code, &output)
	}
}

// Background processes are killed when the command ends, and their denials are reported until then.
func TestDaemonReportsTheRest(t *testing.T) {
	a := startIsolatedDaemon(t)
	p, outside := userFixture(t, 65534)
	began := time.Now()
	out := run(t, a.exec(p, false, []string{"--events", p.home + "/events"}, "(trap '' TERM; exec >/dev/null 2>&1; while :; do cat ../outside; done) & sleep 0.5"))
	list := events(t, p.home+"/events", "denial")
	if out.code != 0 || len(list) == 0 || list[0].Target != outside || !strings.Contains(out.stderr, "ended with it") || time.Since(began) > patience {
		t.Errorf("%+v, %+v", out, list)
	}
}
