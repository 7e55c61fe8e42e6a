//go:build linux

package net

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// fixture is a workspace with a policy.
type fixture struct {
	t         testing.TB
	workspace string
	policy    string
	events    string
	user      uint32 // the owner, and the user of commands
}

const filesystem = `
[[access.fs]]
path = "."
read = true
write = true
`

// newFixture writes a policy that grants the workspace, with lines of [access] and further rules.
func newFixture(t testing.TB, access, rules string) *fixture {
	t.Helper()
	if missing != "" {
		t.Skip("needs ", missing)
	}
	dir := t.TempDir()
	p := &fixture{t, filepath.Join(dir, "workspace"), filepath.Join(dir, "p.toml"), filepath.Join(dir, "events"), 0}
	must(t, os.Mkdir(p.workspace, 0o755))
	must(t, os.WriteFile(p.policy, []byte("version = 1\n[access]\n"+access+filesystem+rules), 0o644))
	return p
}

// grant adds a suggestion to the policy.
func (p *fixture) grant(suggested string) error {
	f, err := os.OpenFile(p.policy, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + suggested)
	return errors.Join(err, f.Close())
}

// chown changes the owner to another user, who uses toolguardd.
func (p *fixture) chown(uid uint32) {
	p.t.Helper()
	p.user = uid
	reported := filepath.Join(filepath.Dir(p.events), "reported")
	p.events = filepath.Join(reported, "events")
	errs := []error{os.Mkdir(reported, 0o755), os.Chown(reported, int(uid), int(uid)), os.Chown(p.workspace, int(uid), int(uid)), os.Chmod(p.policy, 0o644)}
	for _, in := range []string{p.policy, binary} {
		for dir := filepath.Dir(in); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
			errs = append(errs, os.Chmod(dir, 0o755))
		}
	}
	must(p.t, errors.Join(errs...))
}

// write writes a file of the user into the workspace.
func (p *fixture) write(name string, text []byte) {
	p.t.Helper()
	file := filepath.Join(p.workspace, name)
	must(p.t, errors.Join(os.WriteFile(file, text, 0o600), os.Chown(file, int(p.user), int(p.user))))
}

// command returns a shell command in the workspace.
func (p *fixture) command(line string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = p.workspace
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.workspace, "LANG=C.UTF-8"}
	cmd.WaitDelay = 5 * time.Second
	if p.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
	}
	return cmd
}

// confined returns the command under toolguard.
func (p *fixture) confined(line string) *exec.Cmd {
	cmd, daemon := p.command(line), "none"
	if p.user != 0 {
		daemon = "require"
	}
	cmd.Path = binary
	cmd.Args = append([]string{
		"toolguard", "exec", "--quiet", "--policy", p.policy, "--events", p.events, "--report", "never", "--daemon", daemon,
		"--workspace", p.workspace, "--",
	}, cmd.Args...)
	return cmd
}

// outcome is the output of a command, without toolguard's lines, and its exit status.
type outcome struct {
	output string
	code   int
}

func outcomeOf(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(output.String()) {
		if !strings.HasPrefix(line, "toolguard: ") { // other denials by the kernel can't be seen from this network namespace
			lines.WriteString(line)
		}
	}
	return outcome{lines.String(), cmd.ProcessState.ExitCode()}
}

// reported has the compared fields of an event.
type reported struct {
	Actor    struct{ Process process }
	Policy   struct{ Name string }
	Unmapped struct {
		Kind, Capability, Target, Rule, Place, Reason, Mechanism, Suggest string
		Extra                                                             map[string]string
	}
}

// process is a process in an event.
type process struct {
	PID    int
	Name   string
	File   struct{ Path string }
	Line   string   `json:"cmd_line"`
	Began  int64    `json:"created_time"`
	Parent *process `json:"parent_process"`
}

// String returns an event's text in the tests' tables.
func (e reported) String() string {
	u := e.Unmapped
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", u.Capability, u.Target, u.Reason, u.Rule))
}

// readEvents returns all events of denials.
func (p *fixture) readEvents() []reported {
	p.t.Helper()
	return slices.DeleteFunc(childtest.Lines[reported](p.t, p.events), func(e reported) bool { return e.Unmapped.Kind != "denial" })
}

// denials returns the events of the network's denials.
func (p *fixture) denials() []reported {
	p.t.Helper()
	return slices.DeleteFunc(p.readEvents(), func(e reported) bool {
		m := e.Unmapped.Mechanism
		return !strings.HasPrefix(m, "netguard:") && !strings.HasPrefix(m, "egress:")
	})
}

// has reports whether an event is among all.
func has(all []reported, want string) bool {
	return slices.ContainsFunc(all, func(e reported) bool { return e.String() == want })
}

// needs skips a test where a program is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath("/usr/bin/" + p); err != nil {
			t.Skip("needs ", p)
		}
	}
}

// children returns the arguments of a process's children, by PID.
func children(parent int) map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		stat, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		args, _ := os.ReadFile(d + "/cmdline")
		if pid, _ := strconv.Atoi(filepath.Base(d)); string(f[1]) == strconv.Itoa(parent) {
			found[pid] = strings.ReplaceAll(string(args), "\x00", " ")
		}
	}
	return found
}

// egressOf waits for an egress process of a toolguard, other than before.
func egressOf(t testing.TB, toolguard, before int) int {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for pid, args := range children(toolguard) {
			if pid != before && strings.HasPrefix(args, "toolguardd egress ") {
				return pid
			}
		}
	}
	t.Fatal("no egress")
	return 0
}

// until waits for a condition.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	untilFor(t, defaultTimeout, what, is)
}

// defaultTimeout is the default limit of an operation's time.
const defaultTimeout = 2 * time.Minute

// untilFor is until with another time-out.
func untilFor(t testing.TB, patience time.Duration, what string, is func() bool) {
	t.Helper()
	if !childtest.Within(patience, is) {
		t.Fatalf("%s: not in %s", what, patience)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
