package proc

import (
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestChildStatus checks that the status arrives also if all children are reaped meanwhile, as the supervisor of a session does.
func TestChildStatus(t *testing.T) {
	for _, reaping := range []bool{false, true} {
		var all []*Child
		for range 20 {
			c, err := StartChild("/bin/sh", []string{"sh", "-c", "exit 7"}, syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
			childtest.Must(t, err)
			all = append(all, c)
		}
		taken := 0
		for reaping {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, 0, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				break
			}
			Reaped(pid, ws)
			taken++
		}
		if reaping && taken != len(all) {
			t.Errorf("%d of %d were reaped", taken, len(all))
		}
		for _, c := range all {
			ws, err := c.Wait()
			if err != nil || ws.ExitStatus() != 7 {
				t.Errorf("reaping %t: status %d, %v", reaping, ws.ExitStatus(), err)
			}
		}
		if n := len(children.status); n != 0 {
			t.Errorf("reaping %t: %d statuses remain", reaping, n)
		}
	}
}

// TestChildLost checks that a status that nobody reports is an error, and no success.
func TestChildLost(t *testing.T) {
	c, err := StartChild("/bin/true", []string{"true"}, syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	childtest.Must(t, err)
	_, err = syscall.Wait4(c.PID, nil, 0, nil)
	childtest.Must(t, err)
	if _, err := c.Wait(); err == nil || !strings.Contains(err.Error(), "wait4") {
		t.Errorf("a lost status: %v", err)
	}
}
