package bubblewrap

import (
	"encoding/json"
	"fmt"
	"os"
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

func TestMain(m *testing.M) { childtest.Main(m, runStage) }

// stage is what the test binary does within bubblewrap, as toolguard's stage does: it verifies the mounts, restricts itself with Landlock and
// performs operations.
type stage struct {
	Mounts     []mounts.Mount
	Plan       *landlock.Plan // nil: mounts alone
	Dir        []byte         // not a string: JSON has no other bytes than those of UTF-8
	Operations [][]byte
	Canary     string // run the canary of this program instead
}

// results are the errors of operations, 0 for success.
type results map[string]syscall.Errno

func runStage(s stage) (results, error) {
	if s.Canary != "" {
		return results{}, Program{Path: s.Canary}.Canary()
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
	if s.Plan != nil {
		if err := s.Plan.Apply(); err != nil {
			return nil, err
		}
	}
	got := results{}
	for _, op := range s.Operations {
		got[strconv.QuoteToASCII(string(op))] = perform(string(op))
	}
	return got, nil
}

// perform does one operation; its words are separated by "|", since paths have blanks.
func perform(op string) syscall.Errno {
	w := append(strings.Split(op, "|"), "", "")
	open := func(flags int) error {
		fd, err := unix.Open(w[1], flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o666)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	var err error
	switch w[0] {
	case "read":
		err = open(unix.O_RDONLY)
	case "write":
		err = open(unix.O_WRONLY)
	case "create":
		err = open(unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL)
	case "stat":
		err = unix.Stat(w[1], new(unix.Stat_t))
	case "chmod":
		err = unix.Chmod(w[1], 0o777)
	case "mkdir":
		err = unix.Mkdir(w[1], 0o777)
	case "unlink":
		err = unix.Unlink(w[1])
	case "rmdir":
		err = unix.Rmdir(w[1])
	case "rename":
		err = unix.Rename(w[1], w[2])
	case "link":
		err = unix.Link(w[1], w[2])
	case "symlink":
		err = unix.Symlink(w[1], w[2])
	case "execute":
		err = execute(w[1])
	case "empty": // a folder that can be listed and has nothing
		var list []os.DirEntry
		if list, err = os.ReadDir(w[1]); err == nil && len(list) > 0 {
			err = unix.ENOTEMPTY
		}
	case "processes": // ENOENT if there are others than those of the session
		if _, err = os.Stat("/proc/" + w[1]); err == nil {
			return 0
		}
		err = unix.ENOENT
	default:
		panic(op)
	}
	errno, _ := err.(syscall.Errno)
	if err != nil && errno == 0 {
		if p, ok := err.(*os.PathError); ok {
			errno = p.Err.(syscall.Errno)
		} else {
			panic(err)
		}
	}
	return errno
}

func execute(path string) error {
	p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{})
	if err != nil {
		if p, ok := err.(*os.PathError); ok {
			return p.Err
		}
		return err
	}
	_, err = p.Wait()
	return err
}

// session is a policy on this machine with its mounts.
type session struct {
	c    *policy.Compiled
	plan *mounts.Plan
	rows []policy.Enforceability
	abi  int
	dir  string
}

func newSession(t testing.TB, dir string, layers ...policy.SourceLayer) *session {
	t.Helper()
	abi, _, err := landlock.Probe()
	if err != nil {
		t.Skip(err)
	}
	for i := range layers {
		if layers[i].Authority == policy.Builtin {
			layers[i].Authority = policy.Session
		}
	}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: dir, Home: dir, Path: "/usr/bin:/bin", Layers: layers}, hostfs.Machine{})
	childtest.Must(t, err)
	plan, err := mounts.New(c, mounts.Host{}, mounts.Options{})
	childtest.Must(t, err)
	return &session{c, plan, Report(c, plan, abi), abi, dir}
}

// run performs operations in the session as a user.
func (s *session) run(t testing.TB, uid int, ops ...string) results {
	t.Helper()
	got, errs := s.start(t, uid, ops...)
	if got == nil {
		t.Fatal(errs)
	}
	return got
}

// start is run, which returns what the session printed if it can't start.
func (s *session) start(t testing.TB, uid int, ops ...string) (got results, errs string) {
	t.Helper()
	prog := program(t)
	ll, err := landlock.NewPlan(s.c, s.abi)
	childtest.Must(t, err)
	for i := range ll.Rulesets {
		for k := range ll.Rulesets[i].Grants {
			ll.Rulesets[i].Grants[k].Rule = nil
		}
	}
	args, err := Args(s.plan, Options{Dir: s.dir, Network: s.plan.Network}, []string{"/proc/self/fd/3"})
	childtest.Must(t, err)
	order := stage{Mounts: s.plan.Mounts, Plan: ll, Dir: []byte(s.dir), Operations: toBytes(ops)}
	for range 5 {
		got, errs = inBubblewrap(t, prog, uid, args, order)
		if !strings.Contains(errs, "Unable to apply mount flags") { // other tests unmount something meanwhile
			break
		}
	}
	return got, errs
}

// inBubblewrap runs the test binary as the stage.
func inBubblewrap(t testing.TB, prog Program, uid int, args []string, order stage) (got results, errs string) {
	t.Helper()
	cmd := childtest.Command(t, uid, order)
	exe, err := os.Open("/proc/self/exe")
	childtest.Must(t, err)
	defer exe.Close()
	var stderr strings.Builder
	cmd.Path, cmd.Args, cmd.ExtraFiles, cmd.Stderr = prog.Path, append([]string{prog.Path}, args...), []*os.File{exe}, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Sprintf("%v: %s", err, stderr.String())
	}
	quoted := results{}
	if err := json.Unmarshal(out, &quoted); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	got = results{}
	for op, errno := range quoted {
		op, err := strconv.Unquote(op)
		childtest.Must(t, err)
		got[op] = errno
	}
	return got, ""
}

// program returns this machine's bubblewrap.
func toBytes(list []string) (out [][]byte) {
	for _, s := range list {
		out = append(out, []byte(s))
	}
	return out
}

// program returns this machine's bubblewrap.
func program(t testing.TB) Program {
	t.Helper()
	p, err := Find()
	if err != nil {
		t.Skip(err)
	}
	return p
}

// row returns the row of a rule.
func (s *session) row(t testing.TB, id string) policy.Enforceability {
	t.Helper()
	for _, row := range s.rows {
		if row.ID == id {
			return row
		}
	}
	t.Fatalf("no row %s", id)
	return policy.Enforceability{}
}
