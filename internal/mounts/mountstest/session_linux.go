package mountstest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// Program is a program that makes the mounts of a session.
type Program struct {
	Options mounts.Options
	Report  func(c *policy.Compiled, p *mounts.Plan, abi int) []policy.Enforceability
	Wrap    func(t testing.TB, s *Session, cmd *exec.Cmd) error // changes cmd, which is the stage, to run within the program
	Canary  func(path string) error
	Users   []int  // that sessions run as
	Parent  string // where the tests' folders are
	ABI     int    // of Landlock; 0: the kernel's
	Exact   bool   // denials have the expected error, and not just any
}

// Stage is what the test binary does within the program, as toolguard's stage does: it verifies the mounts, restricts itself with Landlock and
// performs operations.
type Stage struct {
	Mounts     []mounts.Mount
	Plan       *landlock.Plan
	Dir        []byte // not a string: JSON has no other bytes than those of UTF-8
	Operations [][]byte
	Canary     string // run the canary of this program instead
}

// Results are the errors of operations, 0 for success.
type Results map[string]syscall.Errno

// Main is the TestMain of a package that uses this one.
func (p *Program) Main(m *testing.M) { childtest.Main(m, p.runStage) }

func (p *Program) runStage(s Stage) (Results, error) {
	if s.Canary != "" {
		return Results{}, p.Canary(s.Canary)
	}
	if err := mounts.Verify(s.Mounts); err != nil {
		return nil, err
	}
	if err := os.Chdir(string(s.Dir)); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	if err := s.Plan.Apply(); err != nil {
		return nil, err
	}
	got := Results{}
	for _, op := range s.Operations {
		got[strconv.QuoteToASCII(string(op))] = perform(string(op))
	}
	return got, nil
}

// Session is a policy on this machine with its mounts.
type Session struct {
	Plan *mounts.Plan
	Dir  string

	program *Program
	c       *policy.Compiled
	rows    []policy.Enforceability
	abi     int
}

// New returns the session of a policy with dir as its workspace.
func (p *Program) New(t testing.TB, dir string, layers ...policy.SourceLayer) *Session {
	t.Helper()
	abi, _, err := landlock.Probe()
	if err != nil {
		t.Skip(err)
	}
	if p.ABI != 0 {
		abi = p.ABI
	}
	for i := range layers {
		if layers[i].Authority == policy.Builtin {
			layers[i].Authority = policy.Session
		}
	}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: dir, Home: dir, Path: "/usr/bin:/bin", Layers: layers}, hostfs.Machine{})
	childtest.Must(t, err)
	o := p.Options
	o.Visible = []string{dir}
	plan, err := mounts.New(c, mounts.Host{}, o)
	childtest.Must(t, err)
	return &Session{Plan: plan, Dir: dir, program: p, c: c, rows: p.Report(c, plan, abi), abi: abi}
}

// Run performs operations in the session as a user.
func (s *Session) Run(t testing.TB, uid int, ops ...string) Results {
	t.Helper()
	got, errs := s.Start(t, uid, ops...)
	if got == nil {
		t.Fatal(errs)
	}
	return got
}

// Start is Run, which returns what was printed if the session can't start.
func (s *Session) Start(t testing.TB, uid int, ops ...string) (got Results, errs string) {
	t.Helper()
	ll, err := landlock.NewPlan(s.c, s.abi)
	childtest.Must(t, err)
	for i := range ll.Rulesets {
		for k := range ll.Rulesets[i].Grants {
			ll.Rulesets[i].Grants[k].Rule = nil // only error messages need it
		}
	}
	order := Stage{Mounts: s.Plan.Mounts, Plan: ll, Dir: []byte(s.Dir)}
	for _, op := range ops {
		order.Operations = append(order.Operations, []byte(op))
	}
	for range 5 {
		got, errs = s.start(t, uid, order)
		if !strings.Contains(errs, "Unable to apply mount flags") { // other tests unmount something meanwhile
			break
		}
	}
	return got, errs
}

func (s *Session) start(t testing.TB, uid int, order Stage) (got Results, errs string) {
	t.Helper()
	cmd := childtest.Command(t, uid, order)
	exe, err := os.Open("/proc/self/exe")
	childtest.Must(t, err)
	defer exe.Close()
	var stderr strings.Builder
	cmd.ExtraFiles, cmd.Stderr = []*os.File{exe}, &stderr
	if err := s.program.Wrap(t, s, cmd); err != nil {
		return nil, err.Error()
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Sprintf("%v: %s", err, stderr.String())
	}
	quoted := Results{}
	if err := json.Unmarshal(out, &quoted); err != nil {
		t.Fatalf("%v: %q %s", err, out, stderr.String())
	}
	got = Results{}
	for op, errno := range quoted {
		op, err := strconv.Unquote(op)
		childtest.Must(t, err)
		got[op] = errno
	}
	return got, ""
}

// Inner is the command of a session: the test binary, by the first inherited descriptor.
var Inner = []string{"/proc/self/fd/3"}

// Row returns the row of a rule.
func (s *Session) Row(t testing.TB, id string) policy.Enforceability {
	t.Helper()
	for _, row := range s.rows {
		if row.ID == id {
			return row
		}
	}
	t.Fatalf("no row %s", id)
	return policy.Enforceability{}
}

// Want checks the status of a rule and a part of the reason.
func (s *Session) Want(t testing.TB, id string, status policy.Status, why string) {
	t.Helper()
	if row := s.Row(t, id); row.Status != status || !strings.Contains(row.Why, why) {
		t.Errorf("%+v, want %v, %q", row, status, why)
	}
}
