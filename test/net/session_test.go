//go:build linux

package net

import (
	"bytes"
	"encoding/json"
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
)

// place is a workspace, with the folders around it.
type place struct {
	t         testing.TB
	workspace string
	policy    string
	events    string
	user      uint32 // the owner, as whom commands run
}

const filesystem = `
[[access.fs]]
path = "."
read = true
write = true
`

// newPlace has a policy that grants the workspace, with a text of its own before and rules after that.
func newPlace(t testing.TB, access, rules string) *place {
	t.Helper()
	if missing != "" {
		t.Skip("needs ", missing)
	}
	dir := t.TempDir()
	p := &place{t, filepath.Join(dir, "workspace"), filepath.Join(dir, "p.toml"), filepath.Join(dir, "events"), 0}
	must(t, os.Mkdir(p.workspace, 0o755))
	must(t, os.WriteFile(p.policy, []byte("version = 1\n[access]\n"+access+filesystem+rules), 0o644))
	return p
}

// grant adds what is suggested to the policy.
func (p *place) grant(suggested string) error {
	f, err := os.OpenFile(p.policy, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + suggested)
	return errors.Join(err, f.Close())
}

// handTo changes a place's owner to another user, whom toolguardd serves.
func (p *place) handTo(uid uint32) {
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

// write makes a file in the workspace, owned by its user.
func (p *place) write(name string, text []byte) {
	p.t.Helper()
	file := filepath.Join(p.workspace, name)
	must(p.t, errors.Join(os.WriteFile(file, text, 0o600), os.Chown(file, int(p.user), int(p.user))))
}

// command is a line for the shell in the workspace.
func (p *place) command(line string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = p.workspace
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.workspace, "LANG=C.UTF-8"}
	cmd.WaitDelay = 5 * time.Second
	if p.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
	}
	return cmd
}

// confined is the same under toolguard.
func (p *place) confined(line string) *exec.Cmd {
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

// outcome is all that a command says, without what toolguard does, and how it ends.
type outcome struct {
	said string
	code int
}

func outcomeOf(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	late := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(said.String()) {
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

// process is one that an event names.
type process struct {
	PID    int
	Name   string
	File   struct{ Path string }
	Line   string   `json:"cmd_line"`
	Began  int64    `json:"created_time"`
	Parent *process `json:"parent_process"`
}

// String is what the tests name an event by.
func (e reported) String() string {
	u := e.Unmapped
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", u.Capability, u.Target, u.Reason, u.Rule))
}

// read is every denial of which there's an event.
func (p *place) read() (all []reported) {
	p.t.Helper()
	text, err := os.ReadFile(p.events)
	must(p.t, err)
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it's being written
		}
		var e reported
		if err := json.Unmarshal(line, &e); err != nil {
			p.t.Fatalf("%v: %s", err, line)
		}
		if e.Unmapped.Kind == "denial" {
			all = append(all, e)
		}
	}
	return all
}

// denials are the events of what was denied of the network.
func (p *place) denials() []reported {
	p.t.Helper()
	return slices.DeleteFunc(p.read(), func(e reported) bool {
		m := e.Unmapped.Mechanism
		return !strings.HasPrefix(m, "netguard:") && !strings.HasPrefix(m, "egress:")
	})
}

// has says whether an event is among them.
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

// children are the processes whose parent is one, by their arguments.
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

// egressOf is the egress process of a toolguard, once there is one other than before.
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

// until waits for something.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	untilFor(t, patience, what, is)
}

// patience is the default limit of an operation's time.
const patience = 2 * time.Minute

// untilFor waits for something that may take its time.
func untilFor(t testing.TB, patience time.Duration, what string, is func() bool) {
	t.Helper()
	if !wait(patience, is) {
		t.Fatalf("%s: not in %s", what, patience)
	}
}

// wait waits for something, and says whether it came to be.
func wait(patience time.Duration, is func() bool) bool {
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
