package proc

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A process has its ancestors, and one that has ended none that are known.
func TestDescendsFrom(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'exec sleep 1000' & echo $!; wait")
	out, err := cmd.StdoutPipe()
	childtest.Must(t, err)
	childtest.Must(t, cmd.Start())
	var child int
	childtest.Must(t, json.NewDecoder(out).Decode(&child))
	of := func(ancestor int) func(int) bool { return func(pid int) bool { return pid == ancestor } }
	for _, x := range []struct {
		pid, ancestor int
		is            bool
	}{{child, cmd.Process.Pid, true}, {child, os.Getpid(), true}, {cmd.Process.Pid, child, false}, {child, child, false}, {os.Getpid(), child, false}} {
		if is, known := DescendsFrom(x.pid, of(x.ancestor)); is != x.is || !known {
			t.Errorf("%d of %d: %v, %v", x.pid, x.ancestor, is, known)
		}
	}
	killed, err := os.FindProcess(child)
	childtest.Must(t, err)
	childtest.Must(t, killed.Kill())
	_ = cmd.Wait()
	if is, known := DescendsFrom(cmd.Process.Pid, of(os.Getpid())); is || known {
		t.Errorf("a process that has ended: %v, %v", is, known)
	}
}
