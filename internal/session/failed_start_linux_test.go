package session

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// A start that fails before the session thread is restricted signals no process, not even a child that isn't the session's.
func TestFailedStartSignalsNothing(t *testing.T) {
	childtest.NeedsRoot(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv")
	}
	cmd := childtest.Command(t, 0, "fail to start next to another child")
	if cmd.Path, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	cmd.Args = []string{"setpriv", "--bounding-set=-setpcap", cmd.Path} // without it the bounding set can't be emptied
	cmd.Path = setpriv
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"drop the capabilities: drop capability 0`) || !strings.Contains(string(out), `"Alive":true`) {
		t.Errorf("%v, %s", err, out)
	}
}

// failWithOtherChild fails to start a session while it has another child.
func failWithOtherChild() (any, error) {
	child := exec.Command("/bin/sleep", "10000")
	if err := child.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = child.Process.Kill() }()
	c, err := anyPolicy()
	if err != nil {
		return nil, err
	}
	s, err := Begin(true, false)
	if err != nil {
		return nil, err
	}
	_, failed := s.Run(Config{Policy: c, System: hostfs.Machine{}, Argv: []string{"/bin/true"}})
	if err := s.Close(); err != nil {
		return nil, err
	}
	if failed == nil {
		return nil, errors.New("the start didn't fail")
	}
	ended, err := syscall.Wait4(child.Process.Pid, nil, syscall.WNOHANG, nil)
	return struct {
		Err   string
		Alive bool
	}{failed.Error(), ended == 0}, err
}

// The start fails if prefetched work on the session thread fails.
func TestNoStartWithoutFilters(t *testing.T) {
	got := childtest.Run[string](t, os.Getuid(), "start without filters")
	if !strings.HasPrefix(got, "make the system call filters: ") || !strings.HasSuffix(got, "nothing was started") {
		t.Error(got)
	}
}

func startUnfiltered() (any, error) {
	c, err := anyPolicy()
	if err != nil {
		return nil, err
	}
	c.Layers[len(c.Layers)-1].Syscalls.Profile = "none such"
	s, err := Begin(true, false)
	if err != nil {
		return nil, err
	}
	_, failed := s.Run(Config{Policy: c, System: hostfs.Machine{}, Argv: []string{"/bin/true"}})
	if failed == nil {
		failed = errors.New("the command was started")
	}
	return failed.Error(), s.Close()
}

// anyPolicy can be enforced everywhere.
func anyPolicy() (*policy.Compiled, error) {
	layer := policy.SourceLayer{Authority: policy.Session}
	layer.Defaults[policy.FS] = policy.Deny
	return policy.Compile(&policy.Source{
		Name: "test", Workspace: "/", Home: "/", Path: "/usr/bin:/bin", Layers: []policy.SourceLayer{layer},
	}, hostfs.Machine{})
}
