package launch

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestSinceStop(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	childtest.Must(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	stop := func() {
		t.Helper()
		childtest.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
			t.Fatal(ws, err)
		}
	}
	signal := func(sig syscall.Signal) {
		t.Helper()
		childtest.Must(t, syscall.Kill(pid, sig))
	}
	stop()
	if got := sinceStop(pid); got != unchanged {
		t.Errorf("in the same stop: %d", got)
	}
	signal(syscall.SIGCONT)
	if got := sinceStop(pid); got != continued {
		t.Errorf("continued: %d", got)
	}
	stop()
	signal(syscall.SIGCONT)
	signal(syscall.SIGSTOP)
	var info unix.Siginfo // until it has stopped, without taking the change
	childtest.Must(t, unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil))
	if got := sinceStop(pid); got != stoppedAgain {
		t.Errorf("continued and stopped again: %d", got)
	}
	if got := sinceStop(pid); got != unchanged {
		t.Errorf("in the second stop: %d", got)
	}
}
