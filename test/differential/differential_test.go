//go:build linux && amd64

package differential

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

var (
	number = flag.Int("operations", 2000, "how many there are")
	seed   = flag.Int("seed", 1, "of the first session's generator; the next one's is one more")
)

const (
	operatorVar = "TOOLGUARD_OPERATOR"
	hostDir     = "/etc/toolguard/policy.d"
	perSession  = 500 // operations
)

// TestMain is also the guarded process: it does the operations that it reads and answers each with its errno.
func TestMain(m *testing.M) {
	if os.Getenv(operatorVar) == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	unix.Umask(0)
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // a current folder of its own
		panic(err)
	}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0]); err != nil {
		panic(err) // a session has none, and what it gets is compared with what the same process gets without one
	}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	_ = out.Encode(0)
	for {
		var o operation
		if err := in.Decode(&o); err != nil {
			os.Exit(0)
		}
		_ = out.Encode(int(o.do()))
	}
}

// TestKernelAgrees is the test: see the package's comment.
func TestKernelAgrees(t *testing.T) {
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	operator := prepare(t)
	var all tally
	for round, left := *seed, *number; left > 0; round, left = round+1, left-perSession {
		n := min(left, perSession)
		t.Run(fmt.Sprint("seed=", round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(round), 0))
			s := grow(t, r, []string{"/tmp", "/mnt/tmpfs", "/mnt/btrfs"}[round%3])
			all.add(s.session(t, operator, n))
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%+v", all)
	if all.Denied < all.Done/20 || all.Allowed < all.Done/20 {
		t.Errorf("too little was allowed, or denied, to know anything: %+v", all)
	}
}

// tally is how operations ended: in another way than with an error of their own.
type tally struct{ Done, Allowed, Denied, Told int }

func (a *tally) add(b tally) {
	a.Done, a.Allowed, a.Denied, a.Told = a.Done+b.Done, a.Allowed+b.Allowed, a.Denied+b.Denied, a.Told+b.Told
}

// prepare mounts what trees grow on, and makes the folder of programs.
func prepare(t *testing.T) (operator string) {
	t.Helper()
	for _, at := range []string{"/mnt/tmpfs", "/mnt/btrfs"} {
		if out, err := exec.Command("mount", at).CombinedOutput(); err != nil {
			t.Fatalf("mount %s: %v: %s", at, err, out)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	unix.Umask(0)
	operator, err := os.Executable()
	programs = t.TempDir()
	err = errors.Join(err, os.WriteFile(programs+"/program", program, 0o755), os.MkdirAll(hostDir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll("/etc/toolguard") })
	return operator
}

// policy writes policies until some are understood.
func (s *scene) policy(t *testing.T, operator string) (file string, c *policy.Compiled) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "policy.toml")
	var err error
	for range 50 {
		host, session := s.policies(operator)
		if err = errors.Join(os.WriteFile(file, []byte(session), 0o644),
			os.WriteFile(hostDir+"/host.toml", []byte(host), 0o644)); err != nil {
			t.Fatal(err)
		}
		var src *policy.Source
		src, _, err = policyfile.Load(policyfile.Request{
			Policies: []string{file}, HostDir: hostDir, Tool: "t", Dir: "/", Home: "/root", Path: "/usr/bin:/bin",
		}, policyfile.Machine{})
		if err != nil {
			continue
		}
		if c, err = policy.Compile(src, policyfile.Machine{}); err == nil {
			return file, c
		}
	}
	t.Fatalf("no policy can be read: %v", err)
	return "", nil
}

// process does what it's told.
type process struct {
	cmd   *exec.Cmd
	in    *gob.Encoder
	out   *gob.Decoder
	close func() error
}

func start(t *testing.T, command ...string) *process {
	t.Helper()
	g := &process{cmd: exec.Command(command[0], command[1:]...)}
	g.cmd.Dir = "/"
	g.cmd.Env = []string{"HOME=/root", "PATH=/usr/bin:/bin", operatorVar + "=1"}
	g.cmd.Stderr = os.Stderr
	in, err1 := g.cmd.StdinPipe()
	out, err2 := g.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, g.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	g.in, g.out, g.close = gob.NewEncoder(in), gob.NewDecoder(out), in.Close
	if _, err := g.answer(); err != nil {
		_ = g.cmd.Wait()
		t.Fatalf("the session doesn't start: %v", err)
	}
	return g
}

func (g *process) answer() (syscall.Errno, error) {
	var n int
	err := g.out.Decode(&n)
	return syscall.Errno(n), err
}

func (g *process) do(o operation) (syscall.Errno, error) {
	if err := g.in.Encode(o); err != nil {
		return 0, err
	}
	return g.answer()
}

func (g *process) end() error {
	_ = g.close()
	return g.cmd.Wait()
}

// session does n operations under a policy and compares all of them, then the events.
func (s *scene) session(t *testing.T, operator string, n int) tally {
	t.Helper()
	file, c := s.policy(t, operator)
	events := filepath.Join(t.TempDir(), "events")
	g := start(t, filepath.Join(os.Getenv("TOOLGUARD_BUILT"), "toolguard"), "exec", "--backend", "bpf", "--policy", file, "--tool", "t",
		"--events", events, "--report", "never", "--", operator)
	bare := start(t, operator)
	defer bare.end()
	var sum tally
	denials := map[denial]int{}
	for range n {
		o := s.next()
		w := ask(c, o)
		got, err := g.do(o)
		if err != nil {
			t.Fatalf("%v: the session is gone: %v", o, err)
		}
		sum.Done++
		if got == 0 {
			sum.Allowed++
		}
		denied, complaint := compare(o, w, got, bare)
		if complaint != "" {
			_ = g.end()
			told, _ := os.ReadFile(events)
			lines := bytes.Split(bytes.TrimSpace(told), []byte("\n"))
			t.Logf("the last events, before the session's end: %s", lines[max(0, len(lines)-3):len(lines)-1])
			t.Fatalf("operation %d: %v: %s\nthe policy says %+v of %s, the kernel %v", sum.Done, o, complaint, c.Describe(w.Verdict,
				policyQuestion(w), ""), short(w.target), got)
		}
		if denied && !w.device {
			sum.Denied++
			denials[w.denial(c)]++
		}
	}
	if err := g.end(); err != nil {
		t.Fatal(err)
	}
	sum.Told = s.told(t, events, denials)
	return sum
}

func policyQuestion(w want) policy.Question {
	return policy.Question{Resource: policy.FS, Target: w.target}
}

// compare says whether toolguard refused, and what is wrong about how an operation ended. What failed is tried without toolguard,
// unless it's clear who refused: as long as it fails, it changes nothing.
func compare(o operation, w want, got syscall.Errno, without *process) (denied bool, complaint string) {
	refuses := !w.Allow || w.device
	switch {
	case got == 0 && refuses:
		return false, "done, and the policy refuses it"
	case got == 0:
		return false, ""
	case refuses && got == w.errno() && o.Do != "execve" && (got != syscall.EXDEV || !crosses(o)):
		return true, ""
	}
	bare, err := without.do(o)
	switch {
	case err != nil:
		return false, err.Error()
	case bare == got:
		return false, ""
	case refuses && got == w.errno():
		return true, ""
	}
	return false, fmt.Sprintf("without toolguard it ends with %q", bare)
}

// errno is how toolguard refuses.
func (w want) errno() syscall.Errno {
	if w.Reason == policy.NoGain && !w.device {
		return syscall.EXDEV
	}
	return syscall.EACCES
}

// denial is what an event tells.
type denial struct{ target, rule, reason string }

func (w want) denial(c *policy.Compiled) denial {
	d := denial{reason: string(w.Reason)}
	if w.Reason != policy.PathUnresolved { // then the kernel knows a part of it at most
		d.target = text(w.target)
	}
	if a := c.Describe(w.Verdict, policyQuestion(w), ""); a.Rule != nil {
		d.rule = a.Rule.ID
	}
	return d
}

// told compares the events with the denials, and returns how many there were.
func (s *scene) told(t *testing.T, file string, want map[denial]int) (n int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	got := map[denial]int{}
	for lines.Scan() {
		var e struct {
			Count    int
			Unmapped struct{ Kind, Resource, Target, Rule, Reason string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		u := e.Unmapped
		d := denial{unnamed(u.Target), u.Rule, u.Reason}
		switch {
		case u.Resource != policy.FS.String():
			continue
		case u.Reason == string(policy.PathUnresolved):
			d.target = ""
		case !strings.HasPrefix(u.Target, s.root) && want[d] == 0: // the process's own doing; a symlink may lead out of the tree
			continue
		}
		got[d] += max(1, e.Count)
		n += max(1, e.Count)
	}
	for d, n := range want {
		if got[d] != n {
			t.Errorf("%d events instead of %d of %s, rule %q, reason %s", got[d], n, short(d.target), d.rule, d.reason)
		}
		delete(got, d)
	}
	for d, n := range got {
		t.Errorf("%d events too many of %s, rule %q, reason %s", n, short(d.target), d.rule, d.reason)
	}
	return n
}

// unnamed is the name that the expectation has for files without one, instead of the kernel's.
func unnamed(path string) string {
	if dir, name := filepath.Split(path); strings.HasPrefix(name, "#") {
		return dir + "#0"
	}
	return path
}

// text is a path as JSON can hold it.
func text(path string) string { return string([]rune(path)) }
