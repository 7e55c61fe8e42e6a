// Package daemontest starts toolguardd for tests, in a machine of its own: a virtual one.
package daemontest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
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

// Start starts toolguardd and waits until it answers. Every user may connect, not only members of its group.
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

const units = "/etc/systemd/system/"

// Install installs toolguardd as docs/daemon.md describes, from the programs in one folder and the packaged units in another, but with links for
// copies, which an emulated machine would have to translate again. It starts the socket unit. remove removes the units.
func Install(programs, packaging string) (remove func(), err error) {
	_ = os.Remove(api.Socket) // of one that was killed
	remove = func() {
		_ = sh("systemctl stop toolguardd.socket toolguardd.service; rm -rf " + units + "toolguardd.*; systemctl daemon-reload")
	}
	return remove, errors.Join(
		sh("ln -sf "+programs+"/toolguard "+programs+"/toolguardd /usr/bin/"),
		sh("install -m 644 "+packaging+"/sysusers.conf /usr/lib/sysusers.d/toolguard.conf && systemd-sysusers"),
		sh("install -m 644 "+packaging+"/toolguardd.* "+units+" && systemctl daemon-reload && systemctl start toolguardd.socket"),
	)
}

func sh(command string) error {
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// Group is the group whose members may ask an installed toolguardd, as a list of groups; nil where there is none.
func Group() []uint32 {
	g, err := user.LookupGroup("toolguard")
	if err != nil {
		return nil
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	if err != nil {
		return nil
	}
	return []uint32{uint32(gid)}
}
