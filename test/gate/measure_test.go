//go:build linux

package gate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// measureArg makes this program run a command and write what it used to a file: a process that is forked from this one, which has read large
// inputs, begins with its memory.
const measureArg = "measure"

// usage is what a process used.
type usage struct {
	time   time.Duration
	memory int64
}

// measure runs a command, and returns what it used besides.
func measure(t testing.TB, cmd *exec.Cmd, in []byte) (out outcome, used usage) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	file := filepath.Join(t.TempDir(), "usage")
	cmd.Args = append([]string{self, measureArg, file}, cmd.Args...)
	cmd.Path = self
	out = run(t, cmd, in)
	text, err := os.ReadFile(file)
	must(t, err)
	_, err = fmt.Sscan(string(text), (*int64)(&used.time), &used.memory)
	must(t, err)
	return out, used
}

func measured(args []string) int {
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		panic(err)
	}
	u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		panic("no getrusage")
	}
	text := fmt.Sprint(int64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()), " ", u.Maxrss<<10)
	if err := os.WriteFile(args[0], []byte(text), 0o600); err != nil {
		panic(err)
	}
	return cmd.ProcessState.ExitCode()
}
