package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Filters can't be taken off, so what runs under them runs in a child: the test binary again, told what to do by its
// environment.
const childEnv = "TOOLGUARD_SECCOMP_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(child(name))
	}
	os.Exit(m.Run())
}

// outcome is what a child's call came to.
type outcome struct {
	Errno syscall.Errno
	Value uintptr
}

// child does the named deed twice: bare, as the positive control, and under the filters of the named policy.
func child(name string) int {
	runtime.LockOSThread()
	d, ok := deeds[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such deed:", name)
		return 3
	}
	d.before()
	var out [2]outcome
	if os.Getenv(childEnv+"_BARE") != "" {
		out[0].Errno, out[0].Value = d.do()
	} else {
		if err := restrict(d); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		out[1].Errno, out[1].Value = d.do()
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	return 0
}

func restrict(d deed) error {
	src := &policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{d.layer()}}
	c, err := policy.Compile(src, folders{"/"})
	if err != nil {
		return err
	}
	abi := 7
	if d.abi != 0 {
		abi = d.abi
	}
	filters, err := Filters(c, abi)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return Load(filters)
}

// perform runs one deed in a child, bare or under filters, as a user.
func perform(t *testing.T, name string, bare bool, uid uint32) (o outcome, ended *os.ProcessState) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{childEnv + "=" + name}
	if bare {
		cmd.Env = append(cmd.Env, childEnv+"_BARE=1")
	}
	cmd.Stderr = os.Stderr
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return outcome{}, exit.ProcessState
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var out [2]outcome
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s said %q: %v", name, text, err)
	}
	if bare {
		return out[0], cmd.ProcessState
	}
	return out[1], cmd.ProcessState
}
