package launch

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/proc"
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

// reapOthers waits for a command, and then for orphans, while children end that others have started. It returns what these got as statuses.
func reapOthers() (any, error) {
	start := func(text string) (*proc.Child, error) {
		return proc.StartChild("/bin/sh", []string{"sh", "-c", text}, syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	}
	first, err := start("exit 3")
	if err != nil {
		return nil, err
	}
	later, err := start("sleep 0.5; exit 4")
	if err != nil {
		return nil, err
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep 0.2; exit 5"}, &syscall.ProcAttr{})
	if err != nil {
		return nil, err
	}
	exit := new(Supervisor).await(pid)
	statuses := []int{exit.Status.ExitStatus()}
	if !reapUntil(time.Now().Add(time.Minute)) {
		return nil, errors.New("children remain")
	}
	for _, c := range []*proc.Child{first, later} {
		ws, err := c.Wait()
		if err != nil {
			return nil, err
		}
		statuses = append(statuses, ws.ExitStatus())
	}
	return statuses, nil
}

// TestReapOthers checks that the exit status of a child that isn't the command's isn't lost when all children are reaped.
func TestReapOthers(t *testing.T) {
	if got := childtest.Run[[]int](t, os.Getuid(), "reap others' children"); !slices.Equal(got, []int{5, 3, 4}) {
		t.Errorf("statuses %v", got)
	}
}
