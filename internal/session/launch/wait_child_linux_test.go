package launch

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// superviseOne runs a command as sessions on macOS do, and returns its exit status.
func superviseOne() (any, error) {
	s := Watch()
	command := Sandboxed{Args: []string{"/bin/sh", "-c", "kill -STOP $$; exit 7"}}
	pid, err := command.Start()
	if err != nil {
		return nil, err
	}
	s.SetPID(pid)
	go s.Forward()
	end := s.WaitChild(pid, nil)
	return ExitCode(end.Status), end.Err
}

// toolguard stops with the command, and continues it.
func TestStopsWithChild(t *testing.T) {
	cmd := childtest.Command(t, os.Getuid(), "supervise one command")
	out, err := cmd.StdoutPipe()
	childtest.Must(t, err)
	childtest.Must(t, cmd.Start())
	pid := cmd.Process.Pid
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
		if !errors.Is(err, syscall.EINTR) {
			childtest.Must(t, err)
			break
		}
	}
	if !ws.Stopped() {
		t.Fatalf("it didn't stop: %v", ws)
	}
	childtest.Must(t, syscall.Kill(pid, syscall.SIGCONT))
	buf := make([]byte, 64)
	n, _ := out.Read(buf)
	childtest.Must(t, cmd.Wait())
	if got := string(buf[:n]); got != "7\n" {
		t.Errorf("exit status %q", got)
	}
}

// All descriptors that a command could inherit are closed, except those that it gets.
func TestCloseOnExec(t *testing.T) {
	fds := make([]int, 2)
	childtest.Must(t, syscall.Pipe(fds))
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	closes := func(fd int) bool {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		childtest.Must(t, err)
		return flags&unix.FD_CLOEXEC != 0
	}
	if closes(fds[0]) || closes(fds[1]) {
		t.Fatal("the descriptors of a pipe are closed")
	}
	keep, err := Descriptors(fds[1:])
	childtest.Must(t, err)
	childtest.Must(t, CloseOnExec(keep))
	if !closes(fds[0]) || closes(fds[1]) || closes(1) {
		t.Errorf("closed: %v, %v, %v", closes(fds[0]), closes(fds[1]), closes(1))
	}
	if _, err := Descriptors(fds[:1]); err == nil {
		t.Error("a descriptor that is closed is passed on")
	}
}

func TestLimitStageRejects(t *testing.T) {
	for _, args := range [][]string{nil, {"--"}, {"7=1"}, {"x=1", "--", "true"}, {"7=x", "--", "true"}, {"9999=1", "--", "true"}, {"--", "/nonexistent/program"}} {
		if err := runLimitStage(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// The orphans of a command are ended, by SIGKILL if they ignore SIGTERM.
func TestSessionGroupEnds(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	command := Sandboxed{Args: []string{"/bin/sh", "-c", "trap '' TERM; : >'" + ready + "'; while :; do sleep 1; done"}}
	pid, err := command.Start()
	childtest.Must(t, err)
	reaped := make(chan syscall.WaitStatus, 1)
	go func() {
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		reaped <- ws
	}()
	began := time.Unix(1, 0)
	g := &SessionGroup{Table: func() (rows []ProcessRow, err error) {
		if syscall.Kill(pid, 0) == nil { // as an orphan
			rows = append(rows, ProcessRow{PID: pid, Parent: 1, Group: syscall.Getpgrp(), Start: began})
		}
		return rows, nil
	}}
	if !childtest.Eventually(func() bool { _, err := os.Stat(ready); return err == nil }) {
		t.Fatal("the command hasn't begun")
	}
	orphans, remaining, err := g.End()
	if orphans != 1 || remaining != 0 || err != nil {
		t.Errorf("%d, %d, %v", orphans, remaining, err)
	}
	if ws := <-reaped; ws.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v", ws.Signal())
	}
}
