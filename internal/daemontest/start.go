// Package daemontest starts toolguardd for tests, in a machine of its own: a virtual one.
package daemontest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
)

// Needs skips a test on a machine that isn't for toolguardd alone.
func Needs(t *testing.T) {
	t.Helper()
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
}

// Start starts toolguardd and waits until it answers. Every user may connect then, in place of a group that they would have to be in.
func Start(toolguardd, state string, log io.Writer, env ...string) (*exec.Cmd, error) {
	cmd := exec.Command(toolguardd, "--state", state)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	_ = os.Remove(api.Socket) // of one that was killed
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := errors.New("toolguardd doesn't answer")
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // an emulated machine loads the programs slowly
		if (&api.Client{Socket: api.Socket}).Do("GET", api.Status, nil, nil) == nil { // it has set the socket's mode by then
			err = os.Chmod(api.Socket, 0o666)
			break
		}
	}
	if err != nil {
		Stop(cmd, syscall.SIGKILL)
	}
	return cmd, err
}

// Stop sends toolguardd a signal and waits for its end.
func Stop(toolguardd *exec.Cmd, sig os.Signal) {
	_ = toolguardd.Process.Signal(sig)
	_ = toolguardd.Wait()
}

// Serve starts toolguardd for as long as a test runs.
func Serve(t *testing.T, toolguardd string) {
	t.Helper()
	Needs(t)
	cmd, err := Start(toolguardd, t.TempDir(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(cmd, syscall.SIGTERM) })
}
