//go:build linux

package gate

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

// binary is toolguard as it is built for users.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measureArg {
		os.Exit(measured(os.Args[2:]))
	}
	os.Exit(childtest.WithPrograms(func(dir string) int {
		binary = filepath.Join(dir, "toolguard")
		return m.Run()
	}, "toolguard"))
}

// outcome is what a command printed, and its exit status.
type outcome struct {
	stdout, stderr []byte
	code           int
}

// toolguard returns a command of toolguard in the scene.
func (s *scene) toolguard(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.dir("WS")
	cmd.Env = []string{"PATH=/usr/bin:/bin:" + s.dir("BIN"), "HOME=" + s.dir("HOME"), "LANG=C.UTF-8", "USER=user"}
	return cmd
}

// run returns what a command does with an input.
func run(t testing.TB, cmd *exec.Cmd, in []byte) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return outcome{stdout.Bytes(), stderr.Bytes(), cmd.ProcessState.ExitCode()}
}

// gate returns a command that decides calls under a policy of the scene. A flag VARIABLE=VALUE is an environment variable.
func (s *scene) gate(policy string, flags ...string) *exec.Cmd {
	args := []string{"gate", "--policy", filepath.Join(s.dir("POLICY"), policy+".toml"), "--workspace", s.dir("WS")}
	var env []string
	for _, f := range flags {
		if name, _, ok := strings.Cut(f, "="); ok && strings.ToUpper(name) == name {
			env = append(env, f)
			continue
		}
		args = append(args, f)
	}
	cmd := s.toolguard(args...)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}
