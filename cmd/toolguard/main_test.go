package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// TestMain makes this program a command of the scripts in testdata.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"toolguard": main})
}

// TestStories runs testdata/*.txt: command lines and their output, errors included.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		RequireUniqueNames: true,
		ContinueOnError:    true,
		UpdateScripts:      os.Getenv("UPDATE_STORIES") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Vars = append(env.Vars, childtest.NoExitDelay)
			return os.MkdirAll(env.WorkDir+"/home", 0o755)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "denials" {
				return canSeeDenials(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// canSeeDenials reports whether this user can read the kernel's records of denials.
func canSeeDenials() bool {
	return slices.ContainsFunc(backend.Doctor().Probes, func(p backend.Probe) bool {
		return p.Name == "denial events" && p.Result == backend.Yes
	})
}

// exits runs a command that must end with exactly this exit status: "exits 125 toolguard exec -- true".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var ended *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, not %d", got, want)
	}
}
