package loader

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process in a PID namespace of its own can't own the programs.
func TestFirstPIDNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a namespace")
	}
	if err := firstPIDNamespace("/proc/self/ns/pid"); err != nil {
		t.Skip("needs the machine's first PID namespace: ", err)
	}
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := firstPIDNamespace(fmt.Sprintf("/proc/%d/ns/pid", cmd.Process.Pid)); err == nil {
		t.Error("another namespace passes for the first one")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
