package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Every process with no_new_privs is confined, also one that has left its session, its parent and its terminal. Others aren't.
func TestPeersOutside(t *testing.T) {
	_, path := outside(t, newFake())
	exe, err := os.Executable()
	childtest.Must(t, err)
	for _, x := range []struct {
		become   []string
		confined bool
	}{
		{nil, false},
		{[]string{"detached"}, false},
		{[]string{"no_new_privs"}, true},
		{[]string{"no_new_privs", "detached"}, true},
		{[]string{"no_new_privs", "detached", "detached"}, true},
	} {
		got := childtest.Run[seen](t, os.Getuid(), order{path, x.become})
		owner := fmt.Sprintf("user %d", os.Getuid())
		if x.confined {
			owner = fmt.Sprintf("process %d ", got.PID)
		}
		p := got.Peer
		if got.Error != "" || p.Confined != x.confined || p.PID != got.PID || p.UID != os.Getuid() || p.Session != "" || !strings.HasPrefix(p.Owner, owner) || p.Exe != exe {
			t.Errorf("%q: %+v", x.become, got)
		}
	}
}

// On a socket within the session everybody is confined, and all are one owner.
func TestPeersInside(t *testing.T) {
	s := New("one", newFake(), nil)
	defer s.Close()
	path, err := s.Inside(filepath.Join(t.TempDir(), "calls"))
	childtest.Must(t, err)
	got := childtest.Run[seen](t, os.Getuid(), order{path, nil})
	if p := got.Peer; got.Error != "" || !p.Confined || p.PID != got.PID || p.Session != "one" || p.Owner != "session one" {
		t.Errorf("%+v", got)
	}
}

// Another user can't connect, and isn't answered where that is possible.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	_, path := outside(t, newFake())
	for dir := filepath.Dir(filepath.Dir(path)); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		childtest.Must(t, os.Chmod(dir, 0o755))
	}
	ask := func() seen { return childtest.Run[seen](t, 65534, order{path, nil}) }
	if got := ask(); !strings.Contains(got.Error, "permission denied") {
		t.Errorf("it can connect: %+v", got)
	}
	childtest.Must(t, os.Chmod(filepath.Dir(path), 0o755))
	childtest.Must(t, os.Chmod(path, 0o666))
	if got := ask(); !strings.Contains(got.Error, "user 65534 may not use a session of user 0") {
		t.Errorf("it is answered: %+v", got)
	}
	if got := childtest.Run[seen](t, 0, order{path, nil}); got.Error != "" {
		t.Errorf("the user: %+v", got)
	}
}

// A session that can create no unix socket connects over the descriptor that it inherits.
func TestDescriptor(t *testing.T) {
	s := New("one", newFake(), func(text string) { t.Error(text) })
	f, err := s.Descriptor()
	childtest.Must(t, err)
	for _, become := range [][]string{nil, {"detached"}, {"no_new_privs", "filtered"}} {
		cmd := childtest.Command(t, os.Getuid(), order{"fd:3", become})
		cmd.ExtraFiles = []*os.File{f}
		got := answerOf(t, cmd)
		p := got.Peer
		if got.Error != "" || !p.Confined || p.PID != 0 || p.Session != "one" || p.Owner != "session one" || p.UID != os.Getuid() || got.UnixDenied != (len(become) == 2) {
			t.Errorf("%q: %+v", become, got)
		}
	}
	cmd := childtest.Command(t, os.Getuid(), order{"fd:3", nil})
	if got := answerOf(t, cmd); !strings.Contains(got.Error, "fd:3 isn't a session's descriptor") {
		t.Errorf("without the descriptor: %+v", got)
	}
	childtest.Must(t, f.Close())
	childtest.Must(t, s.Close())
}

func answerOf(t *testing.T, cmd *exec.Cmd) (s seen) {
	t.Helper()
	out, err := cmd.Output()
	childtest.Must(t, err)
	decode(t, out, &s)
	return s
}
