//go:build linux

package calls

import (
	"fmt"
	"io"
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
	os.Exit(withBinaries(m))
}

// withBinaries builds toolguard and toolguard-ship. On a machine without compilers it uses those in the folder TOOLGUARD_BUILT.
func withBinaries(m *testing.M) int {
	dir, err := os.MkdirTemp("", "calls-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	self = filepath.Join(dir, "agent")
	if err := copyProgram("/proc/self/exe", self); err != nil {
		panic(err)
	}
	if built := os.Getenv("TOOLGUARD_BUILT"); built != "" {
		binary = filepath.Join(built, "toolguard")
		return m.Run()
	}
	binary = filepath.Join(dir, "toolguard")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir, "../../cmd/toolguard", "../../cmd/toolguard-ship")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// user is the user of a session.
type user struct {
	name string
	id   uint32
}

// users are root and an ordinary user for root, else the current user.
func users() []user {
	if os.Geteuid() == 0 {
		return []user{{"root", 0}, {"nobody", 65534}}
	}
	return []user{{"user", uint32(os.Geteuid())}}
}

// ordinary is the last of them: an ordinary user, as which most tests run.
func ordinary() user {
	all := users()
	return all[len(all)-1]
}

// eachUser runs a test for each of them, in a fixture of its own.
func eachUser(t *testing.T, test func(t *testing.T, p *fixture)) {
	t.Helper()
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) { test(t, newFixture(t, u)) })
	}
}

// patience is the limit for anything expected, on a slow or busy machine.
const patience = 2 * time.Minute

// eventually waits for a condition, and reports whether it became true.
func eventually(is func() bool) bool {
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

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
		must(t, os.Chown(d, int(u.id), int(u.id)))
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chown(dir, int(u.id), int(u.id)))
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
		must(t, os.Lchown(d, int(p.user.id), int(p.user.id)))
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
	cmd.Env = append([]string{"PATH=" + searchPath, "HOME=" + p.home, "XDG_RUNTIME_DIR=" + p.run, "LANG=C.UTF-8", "USER=" + p.user.name}, p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.id, Gid: u.id, Groups: daemontest.Group()}
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
func processes(t *testing.T, mark string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), mark) {
			n++
		}
	}
	return n
}
