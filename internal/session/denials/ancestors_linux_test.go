package denials

import (
	"os"
	"os/exec"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

// Each process is read once, for all of its descendants.
func TestAncestors(t *testing.T) {
	child := exec.Command("sleep", "60")
	childtest.Must(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	pid, self := child.Process.Pid, os.Getpid()
	known := map[int][]event.Process{}
	all := ancestors(pid, 0, known)
	if len(all) < 2 || all[0].PID != pid || all[1].PID != self || len(known) != len(all) {
		t.Fatalf("%+v %d", all, len(known))
	}
	for pid, list := range known {
		if list[0].PID != pid || list[len(list)-1].PID != all[len(all)-1].PID {
			t.Errorf("%d: %+v", pid, list)
		}
	}
	delete(known, pid)
	known[self] = []event.Process{{PID: 1 << 30}}
	if again := ancestors(pid, 0, known); len(again) != 2 || again[1].PID != 1<<30 {
		t.Errorf("%+v", again)
	}
}
