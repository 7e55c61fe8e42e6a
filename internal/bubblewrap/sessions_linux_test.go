package bubblewrap

import (
	"os/exec"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/mounts/mountstest"
)

func TestMain(m *testing.M) { sessions.Main(m) }

// sessions runs the stages of tests within this machine's bubblewrap.
var sessions = mountstest.Program{
	Report: Report, Wrap: wrap, Parent: "/var/tmp", Exact: true, Users: childtest.Users(),
	Canary: func(path string) error { return Program{Path: path}.Canary() },
}

func wrap(t testing.TB, s *mountstest.Session, cmd *exec.Cmd) error {
	t.Helper()
	args, err := Args(s.Plan, Options{Dir: s.Dir, Network: s.Plan.Network}, mountstest.Inner)
	childtest.Must(t, err)
	prog := program(t)
	cmd.Path, cmd.Args = prog.Path, append([]string{prog.Path}, args...)
	return nil
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

func TestSessions(t *testing.T) {
	program(t)
	sessions.Test(t)
}
