//go:build linux

package run

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/daemontest"
)

var must = childtest.Must

// binary is toolguard as it is built for users.
var binary string

// inGuest: this is a virtual machine, in which toolguardd runs as its package's unit.
var inGuest = os.Getenv("TOOLGUARD_VM") != ""

func TestMain(m *testing.M) {
	os.Exit(childtest.WithPrograms(func(dir string) int { return withBinary(m, dir) }, "toolguard"))
}

// withBinary runs the tests with the programs in a folder.
func withBinary(m *testing.M, dir string) int {
	binary = filepath.Join(dir, "toolguard")
	var err error
	if inGuest { // for ordinary users; root does without it
		var remove func()
		remove, err = daemontest.Install(dir, "../../packaging/systemd")
		defer remove()
	} else if os.Getenv("TOOLGUARD_BUILT") == "" {
		err = childtest.Build(filepath.Join(dir, "daemon"), "toolguardd") // toolguard doesn't find it there
	}
	if err != nil {
		panic(err)
	}
	return m.Run()
}

type user = childtest.User

var users = childtest.NamedUsers

// eachUser runs a test for each of them, in a fixture of its own.
func eachUser(t *testing.T, test func(t *testing.T, p fixture)) {
	t.Helper()
	for _, u := range users() {
		t.Run(u.Name, func(t *testing.T) { test(t, newFixture(t, u)) })
	}
}

// searchPath is a PATH that every user can use; the tests' own may have folders in a home.
const searchPath = "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// fixture has the folders of a command: a home and a workspace next to it, both owned by the user.
type fixture struct {
	user            user
	home, workspace string
}

func newFixture(t *testing.T, u user) fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "run-")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := fixture{u, filepath.Join(dir, "home"), filepath.Join(dir, "workspace")}
	for _, d := range []string{p.home, filepath.Join(p.home, ".cache"), filepath.Join(p.home, ".cache/go-build"), p.workspace} {
		must(t, os.Mkdir(d, 0o755))
	}
	must(t, os.Chmod(dir, 0o755))
	p.own(t)
	return p
}

// own changes the owner of all files to the user.
func (p fixture) own(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(p.workspace), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, p.user.ID, p.user.ID)
	})
	must(t, err)
}

func (p fixture) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(p.workspace, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o755))
	p.own(t)
}

// command is argv in the workspace, as the user.
func (p fixture) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(find(argv[0]), argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = p.workspace
	cmd.Env = []string{"PATH=" + searchPath, "HOME=" + p.home, "LANG=C.UTF-8", "USER=" + p.user.Name}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.user.ID), Gid: uint32(p.user.ID), Groups: daemontest.Group()}
	}
	cmd.WaitDelay = patience // its orphans may have the output open, and be slow to end
	return cmd
}

// confined is the same under toolguard with flags.
func (p fixture) confined(flags []string, argv ...string) *exec.Cmd {
	all := []string{binary, "exec", "--quiet"}
	if p.user.ID == 0 {
		all = append(all, "--daemon", "none")
	}
	all = append(append(all, flags...), "--")
	return p.command(append(all, argv...)...)
}

// outcome is a command's output and exit status.
type outcome struct {
	stdout, stderr string
	code           int
}

// run waits ten minutes for a command: one that hangs is killed, and its status is -1.
func run(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() })
	defer start.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// patience is the limit for anything expected, on a slow or busy machine.
const patience = 2 * time.Minute

// eventually waits for a condition, and reports whether it became true.
func eventually(is func() bool) bool { return childtest.Within(patience, is) }

// processes counts those that have mark in their arguments.
func processes(t *testing.T, mark string) int {
	t.Helper()
	return len(childtest.Processes(t, mark))
}

// find returns a program's path in searchPath, or the name itself if there is none.
func find(program string) string {
	if strings.Contains(program, "/") {
		return program
	}
	for _, dir := range filepath.SplitList(searchPath) {
		if file := filepath.Join(dir, program); unix.Access(file, unix.X_OK) == nil {
			return file
		}
	}
	return program
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if find(p) == p {
			t.Skipf("needs %s", p)
		}
	}
}
