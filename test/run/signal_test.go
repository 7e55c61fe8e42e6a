//go:build linux

package run

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// policy lets the command do everything in the workspace.
var policy = []string{"--policy", "preset:git"}

// begin starts cmd and returns what it prints, after it has printed "ready".
func begin(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return r
}

// ended waits for cmd, and returns its exit status and the rest of what it printed.
func ended(t *testing.T, cmd *exec.Cmd, r *bufio.Reader) (code int, rest string) {
	t.Helper()
	stop := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	var all strings.Builder
	if _, err := r.WriteTo(&all); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), all.String()
}

// A signal that is sent to toolguard reaches the command, which decides what it means.
func TestSignalsReachTheCommand(t *testing.T) { signalsReach(t, policy) }

// wrapped are the flags for bubblewrap, whose processes are between toolguard and the command.
var wrapped = append([]string{"--backend", "bwrap"}, policy...)

// TestWrappedSignals runs the tests of signals within bubblewrap.
func TestWrappedSignals(t *testing.T) {
	needs(t, "bwrap")
	t.Run("reach the command", func(t *testing.T) { signalsReach(t, wrapped) })
	t.Run("stop and continue", func(t *testing.T) {
		stopsAndContinues(t, newFixture(t, users()[0]).confined(wrapped, "sh", "-c", "echo ready; kill -STOP $$; echo continued"))
	})
	t.Run("killed with toolguard", func(t *testing.T) { killedWithToolguard(t, wrapped, "1000.0072") })
}

func signalsReach(t *testing.T, flags []string) {
	for _, sig := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		for _, u := range users() {
			t.Run(u.Name+"/"+sig.String(), func(t *testing.T) {
				p := newFixture(t, u)
				name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
				cmd := p.confined(flags, "sh", "-c", `trap 'echo got; exit 33' `+name+`; echo ready; while :; do sleep 0.05; done`)
				r := begin(t, cmd)
				must(t, cmd.Process.Signal(sig))
				if code, rest := ended(t, cmd, r); code != 33 || rest != "got\n" {
					t.Errorf("exit %d, %q", code, rest)
				}
			})
		}
	}
}

// A signal that the command doesn't catch ends it, and the exit status shows it.
func TestSignalEndsTheCommand(t *testing.T) {
	p := newFixture(t, users()[0])
	cmd := p.confined(policy, "sh", "-c", "echo ready; exec sleep 1000")
	r := begin(t, cmd)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if code, rest := ended(t, cmd, r); code != 128+15 || rest != "" {
		t.Errorf("exit %d, %q", code, rest)
	}
}

// The command ignores the signals that toolguard was started to ignore.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	p := newFixture(t, users()[0])
	out := run(t, p.command("sh", "-c", `trap "" HUP; exec "$@"`, "sh", binary, "exec", "--quiet", "--policy", "preset:git", "--",
		"sh", "-c", "kill -HUP $$; echo alive"))
	if out.stdout != "alive\n" {
		t.Errorf("%+v", out)
	}
	control := run(t, p.confined(policy, "sh", "-c", "kill -HUP $$; echo alive"))
	if control.code != 128+1 || control.stdout != "" {
		t.Errorf("control: %+v", control)
	}
}

// kill -9 of toolguard ends the command with it, as it would end the command alone.
func TestKilledWithToolguard(t *testing.T) { killedWithToolguard(t, policy, "1000.0071") }

func killedWithToolguard(t *testing.T, flags []string, mark string) {
	eachUser(t, func(t *testing.T, p fixture) {
		cmd := p.confined(flags, "sh", "-c", "echo ready; exec sleep "+mark)
		begin(t, cmd)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		gone(t, "\x00"+mark)
	})
}

// gone waits a while for the last process with mark in its arguments to end.
func gone(t *testing.T, mark string) {
	t.Helper()
	if !eventually(func() bool { return processes(t, mark) == 0 }) {
		t.Errorf("%d processes are left", processes(t, mark))
	}
}

// Stopping and continuing toolguard stops and continues the command, and a shell sees its job stop when the command stops
// itself.
func TestStopAndContinue(t *testing.T) {
	p := newFixture(t, users()[0])
	cmd := p.confined(policy, "sh", "-c", "echo ready; kill -STOP $$; echo continued")
	stopsAndContinues(t, cmd)
}

// stopsAndContinues begins a toolguard whose command gets ready, stops itself, and then prints "continued".
func stopsAndContinues(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r := begin(t, cmd)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("toolguard didn't stop with the command: %v, %#x", err, ws)
	}
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	if code, rest := ended(t, cmd, r); code != 0 || rest != "continued\n" {
		t.Errorf("exit %d, %q", code, rest)
	}
}
