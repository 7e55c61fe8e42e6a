//go:build linux

package calls

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/daemontest"
)

var must = childtest.Must

// binary is toolguard as it is built for users, and self this program, where every user can execute it.
var binary, self string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == agentArg {
		if err := agentMain(); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(childtest.WithPrograms(func(built string) int {
		binary = filepath.Join(built, "toolguard")
		dir, err := os.MkdirTemp("", "calls-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		self = filepath.Join(dir, "agent")
		program, err := os.ReadFile("/proc/self/exe")
		if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(self, program, 0o755)); err != nil {
			panic(err)
		}
		return m.Run()
	}, "toolguard", "toolguard-ship"))
}

type user = childtest.User

var users = childtest.NamedUsers

// ordinary is the last of them: an ordinary user, as which most tests run.
func ordinary() user {
	all := users()
	return all[len(all)-1]
}

// eachUser runs a test for each of them, in a fixture of its own.
func eachUser(t *testing.T, test func(t *testing.T, p *fixture)) {
	t.Helper()
	for _, u := range users() {
		t.Run(u.Name, func(t *testing.T) { test(t, newFixture(t, u)) })
	}
}

// patience is the limit for anything expected, on a slow or busy machine.
const patience = 2 * time.Minute

// eventually waits for a condition, and reports whether it became true.
func eventually(is func() bool) bool { return childtest.Within(patience, is) }

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// fixture has the folders of a user's sessions. The user owns them all.
type fixture struct {
	user                          user
	dir, home, run, workspace, in string
	env                           []string // more of it
	wrap                          []string // argv in front of toolguard's, of root
}

func newFixture(t *testing.T, u user) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "calls-")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := &fixture{user: u, dir: dir, home: dir + "/home", run: dir + "/run", workspace: dir + "/workspace", in: dir + "/policy"}
	for _, d := range []string{p.home, p.run, p.workspace, p.in} {
		must(t, os.Mkdir(d, 0o700))
		must(t, os.Chown(d, u.ID, u.ID))
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chown(dir, u.ID, u.ID))
	return p
}

// write writes a file of the user's: NAME in the workspace, policy/NAME next to the policy. Programs are executable.
func (p *fixture) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.workspace, name)
	if strings.HasPrefix(name, "policy/") || strings.HasPrefix(name, "home/") {
		path = filepath.Join(p.dir, name)
	}
	temp := path + ".new" // a program that runs can't be written
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(temp, []byte(text), 0o600))
	mode := os.FileMode(0o600)
	if strings.HasPrefix(text, "#!") {
		mode = 0o700
	}
	must(t, os.Chmod(temp, mode))
	for d := temp; len(d) > len(p.dir); d = filepath.Dir(d) {
		must(t, os.Lchown(d, p.user.ID, p.user.ID))
	}
	must(t, os.Rename(temp, path))
	return path
}

// state is the path of a file in the user's state folder.
func (p *fixture) state(name string) string {
	return filepath.Join(p.home, ".local/state/toolguard", name)
}

// command is argv in the workspace, as the user.
func (p *fixture) command(argv ...string) *exec.Cmd {
	return p.as(p.user, argv...)
}

// as is argv in the workspace, as a user.
func (p *fixture) as(u user, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.workspace
	cmd.Env = append([]string{"PATH=" + searchPath, "HOME=" + p.home, "XDG_RUNTIME_DIR=" + p.run, "LANG=C.UTF-8", "USER=" + p.user.Name}, p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.ID), Gid: uint32(u.ID), Groups: daemontest.Group()}
	}
	cmd.WaitDelay = patience
	return cmd
}

// needs skips a test where a program is missing.
func needs(t *testing.T, program string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(searchPath) {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(dir, program)
		}
	}
	t.Skipf("needs %s", program)
	return ""
}

// processes counts those that have mark in their command line.
func processes(t *testing.T, mark string) int {
	t.Helper()
	return len(childtest.Processes(t, mark))
}
