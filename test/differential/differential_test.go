//go:build linux && amd64

package differential

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/daemontest"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

var must = childtest.Must

var (
	number = flag.Int("operations", 10000, "how many there are")
	seed   = flag.Int("seed", 1, "of the first session's generator; the next one's is one more")
)

const (
	hostDir      = "/etc/toolguard/policy.d"
	settingsFile = "/etc/toolguard/toolguardd.toml"
	settings     = "[audit]\nsize = 16777216\non_full = \"drop\"\n" // with on_full = "deny" a full audit would reject the sessions of a long run
	perSession   = 1000                                             // operations
)

// TestKernelAgrees is the test: see the package's comment.
func TestKernelAgrees(t *testing.T) {
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	operator := prepare(t)
	all := tally{}
	for round, left := *seed, *number; left > 0; round, left = round+1, left-perSession {
		t.Run(fmt.Sprint("seed=", round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(round), 0))
			s := grow(t, r, []string{"/tmp", "/mnt/tmpfs", "/mnt/btrfs"}[round%3])
			n := min(left, perSession)
			if round%4 == 3 {
				s.races(t, operator, n, all)
			} else {
				s.session(t, operator, n, all)
			}
		})
	}
	all.requireBoth(t)
}

// tally counts results by operation: an operation that ended with another error than a denial counts as allowed.
type tally map[string]*struct{ Done, Allowed, Denied int }

func (a tally) of(do string) *struct{ Done, Allowed, Denied int } {
	if a[do] == nil {
		a[do] = new(struct{ Done, Allowed, Denied int })
	}
	return a[do]
}

// requireBoth fails the test if too few operations were allowed, or denied, for a comparison.
func (a tally) requireBoth(t *testing.T) {
	t.Helper()
	sum := tally{}.of("")
	for do, n := range a {
		t.Logf("%-12s %+v", do, *n)
		sum.Done, sum.Allowed, sum.Denied = sum.Done+n.Done, sum.Allowed+n.Allowed, sum.Denied+n.Denied
		few := strings.HasSuffix(do, raced) // repeated operations
		if n.Done >= 300 && !few && (n.Allowed == 0 || n.Denied == 0 && !needsNothing[do]) {
			t.Errorf("%s: none was allowed, or none denied: %+v", do, *n)
		}
	}
	t.Logf("all          %+v", *sum)
	if few := sum.Done / 20; sum.Done > 5*perSession && (sum.Denied < few || sum.Allowed < few) {
		t.Errorf("too little was allowed, or denied: %+v", *sum)
	}
}

// prepare mounts the trees' file systems, creates the folder of programs, and starts toolguardd.
func prepare(t *testing.T) (operator string) {
	t.Helper()
	for _, at := range []string{"/mnt/tmpfs", "/mnt/btrfs"} {
		if out, err := exec.Command("sh", "-c", "mountpoint -q "+at+" || mount "+at).CombinedOutput(); err != nil { // the guest's other tests may have
			t.Fatalf("mount %s: %v: %s", at, err, out)
		}
	}
	unix.Umask(0)
	operator, err := os.Executable()
	programs = t.TempDir()
	err = errors.Join(err, os.WriteFile(programs+"/program", program, 0o755), os.WriteFile(programs+"/execveat", execveat, 0o755),
		os.MkdirAll(hostDir, 0o755), os.WriteFile(settingsFile, []byte(settings), 0o644))
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll("/etc/toolguard") })
	serve(t)
	return operator
}

// serve starts toolguardd, so that the BPF programs are loaded once for all sessions. Its audit is in memory: with a disk, it would wait at
// every denial.
func serve(t *testing.T) {
	t.Helper()
	var said bytes.Buffer
	d, err := daemontest.Start(filepath.Join(os.Getenv("TOOLGUARD_BUILT"), "toolguardd"), "/mnt/tmpfs/state", &said, oneProcessor)
	t.Cleanup(func() {
		if err == nil {
			daemontest.Stop(d, syscall.SIGTERM)
		}
		t.Logf("toolguardd said:\n%s", &said)
	})
	must(t, err)
}

// policy writes a policy without the rules that are errors, for example through a dangling symlink.
func (s *scene) policy(t *testing.T, operator string) (file string, c *policy.Compiled) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "policy.toml")
	var last error
	for range 10 {
		texts := map[string]string{}
		texts[hostDir+"/host.toml"], texts[file] = s.policies(operator)
		c, err := compile(file, texts)
		for range 2 { // errors of the parser, then of the compiler
			var mistakes policy.Errors
			if errors.As(err, &mistakes) {
				removeRules(t, texts, mistakes)
				c, err = compile(file, texts)
			}
		}
		if err == nil {
			_, err = image.New(c, 0) // fails when there are more patterns than the kernel follows
		}
		if err == nil {
			s.keepOpen(t, c)
			return file, c
		}
		last = err
	}
	t.Fatalf("no policy can be followed: %v", last)
	return "", nil
}

// keepOpen keeps open the files that the policy denies by inode number, so that no other file gets their numbers.
func (s *scene) keepOpen(t *testing.T, c *policy.Compiled) {
	t.Helper()
	if len(c.Links) == 0 {
		return
	}
	s.walk(func(path string, id fspath.FileID) {
		if !slices.ContainsFunc(c.Links, func(k policy.Link) bool { return k.File == id }) {
			return
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
	})
}

func compile(file string, texts map[string]string) (*policy.Compiled, error) {
	for name, text := range texts {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	src, _, err := policyfile.Load(policyfile.Request{
		Policies: []string{file}, HostDir: hostDir, Tool: "t", Agent: "a", Dir: "/", Home: "/root", Path: "/usr/bin:/bin",
	}, hostfs.Machine{})
	if err != nil {
		return nil, err
	}
	return policy.Compile(src, hostfs.Machine{})
}

// startConfined starts the confined process.
func startConfined(t *testing.T, file, events, operator string) *process {
	t.Helper()
	p, err := start(filepath.Join(os.Getenv("TOOLGUARD_BUILT"), "toolguard"), "exec", "--daemon", "require", "--policy", file, "--tool", "t",
		"--agent", "a", "--events", events, "--report", "never", "--", operator)
	if err != nil {
		t.Fatalf("the session doesn't start: %v", err)
	}
	return p
}

// session is operations under a policy, all of them compared, then the events.
type session struct {
	*scene
	t        *testing.T
	c        *policy.Compiled
	confined *process
	events   string
	denials  map[denial]int
	asked    map[denial][]operation // what was denied so
	all      tally
	done     int
}

func (s *scene) session(t *testing.T, operator string, n int, all tally) {
	t.Helper()
	file, c := s.policy(t, operator)
	must(t, alone())
	x := &session{scene: s, t: t, c: c, denials: map[denial]int{}, asked: map[denial][]operation{}, all: all}
	x.events = filepath.Join(t.TempDir(), "events")
	x.confined = startConfined(t, file, x.events, operator)
	for x.done < n {
		x.burst()
	}
	must(t, x.confined.end())
	x.reported()
}

// burst does some operations: together those that change nothing for others, then each of the rest.
func (x *session) burst() {
	for range 10 {
		x.add(x.fresh()) // from a process outside
	}
	var together, alone []operation
	var wants []want
	c := x.evaluator()
	for range 40 {
		o := x.randomOperation()
		if w := ask(c, o); changes(o, w) {
			alone = append(alone, o)
		} else {
			together, wants = append(together, o), append(wants, w)
		}
	}
	x.compare(together, wants)
	for _, o := range alone {
		x.compare([]operation{o}, []want{ask(x.evaluator(), o)})
	}
}

// evaluator returns the evaluator for the current tree, until something changes.
func (x *session) evaluator() asked { return asked{x.c, cachedMachine{kinds: map[string]kind{}}} }

func (x *session) compare(list []operation, wants []want) {
	results, err := x.confined.do(work{Mine: list})
	if err != nil {
		x.t.Fatalf("%v: the session is gone: %v", list, err)
	}
	for _, failed := range []bool{false, true} { // an operation that was done, and should have been denied, may make others fail
		for i, o := range list {
			if got := results[i].Errno; (got != 0) == failed {
				x.one(o, wants[i], got)
			}
		}
	}
}

func (x *session) one(o operation, w want, got syscall.Errno) {
	x.done++
	n := x.all.of(o.Do)
	n.Done++
	denied, complaint := compare(o, w, got)
	switch {
	case complaint != "":
		_ = x.confined.end()
		x.t.Fatalf("operation %d: %v: %s\nthe policy decides %+v on %s, the kernel %v\nreported denials that weren't expected: %s", x.done, o, complaint,
			explain.Describe(x.c, w.Verdict, policyQuestion(w), ""), short(w.target), got, x.unexpected())
	case got == 0:
		n.Allowed++
	case denied:
		n.Denied++
		if !w.device {
			d := w.denial(x.c)
			x.denials[d]++
			x.asked[d] = append(x.asked[d], o)
		}
	}
}

func policyQuestion(w want) explain.Question {
	return explain.Question{Resource: policy.FS, Target: w.target}
}

// compare reports whether toolguard denied an operation, and what is wrong about its result. A failed operation is repeated without
// toolguard, unless it's clear what denied it: as long as it fails, it changes nothing.
func compare(o operation, w want, got syscall.Errno) (denied bool, complaint string) {
	switch {
	case got == 0 && w.refuses():
		return false, "done, and the policy refuses it"
	case got == 0:
		return false, ""
	case w.refuses() && got == w.errno() && o.Do != "execve" && o.Do != "execveat" && (got != syscall.EXDEV || !crosses(o)):
		return true, ""
	}
	without := bare(o)
	switch {
	case without == got:
		return false, ""
	case w.refuses() && got == w.errno():
		return true, ""
	}
	return false, fmt.Sprintf("without toolguard it ends with %q", without)
}

func (w want) refuses() bool { return !w.Allow || w.device }

// errno is the error of a denial.
func (w want) errno() syscall.Errno {
	if w.Reason == policy.NoGain && !w.device {
		return syscall.EXDEV
	}
	return syscall.EACCES
}
