package calls

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// machine is this one with a file that doesn't exist.
type machine struct {
	hostfs.Machine
	name string
	text []byte
}

func (m machine) Read(path string, limit int) ([]byte, error) {
	if path == m.name {
		return m.text, nil
	}
	return m.Machine.Read(path, limit)
}

// fixture is a workspace next to a folder that the session may write, and a private one.
type fixture struct {
	dir, bin string
	granted  string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := childtest.TempDir(t)
	f := &fixture{dir: dir, bin: filepath.Join(dir, "bin"), granted: filepath.Join(dir, "granted.toml")}
	for _, name := range []string{"ws", "out", "private", "bin", "home"} {
		childtest.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	childtest.Must(t, os.WriteFile(filepath.Join(f.bin, "git"), []byte("\x7fELF"), 0o700))
	childtest.Must(t, os.WriteFile(filepath.Join(dir, "p.toml"), []byte(`
version = 1
[access]
default = { commands = "deny" }
fs = [{ path = ".", read = true, write = true }, { path = "`+dir+`/out", read = true, write = true }, { path = "`+dir+`/out/shared", read = true, execute = true }, { path = "`+dir+`/bin", read = true, execute = true }]
commands = { git = { args = [["status"]] } }
`), 0o600))
	return f
}

func (f *fixture) load(granted []byte) (*policy.Compiled, error) {
	src, _, err := policyfile.Load(policyfile.Request{
		Policies: []string{filepath.Join(f.dir, "p.toml"), f.granted}, Workspace: filepath.Join(f.dir, "ws"), Dir: filepath.Join(f.dir, "ws"),
		Home: filepath.Join(f.dir, "home"), Path: f.bin,
	}, machine{name: f.granted, text: granted})
	if err != nil {
		return nil, err
	}
	return policy.Compile(src, hostfs.Machine{})
}

func (f *fixture) grants(given ...string) *Grants {
	return &Grants{judging: new(sync.Mutex), Home: filepath.Join(f.dir, "home"), System: hostfs.Machine{}, Load: f.load, Given: given}
}

// Commands are asked for one after the other, and at once: each rule is added to those that were given, and all of them load together.
func TestGivenCommands(t *testing.T) {
	f := newFixture(t)
	ask := func(g *Grants, argument string) string {
		p, err := g.propose(&message.Grant{Resource: "command", Action: "run", Argv: []string{"git", argument}})
		childtest.Must(t, err)
		if p == nil {
			t.Fatalf("git %s is allowed already", argument)
		}
		if strings.Contains(p.rule, "version") || strings.Count(p.rule, "[access.") != 1 {
			t.Errorf("git %s: a person would be asked about %q", argument, p.rule)
		}
		return p.rule
	}
	none := f.grants()
	log, diff := ask(none, "log"), ask(none, "diff")
	show := ask(f.grants(log), "show")
	for _, given := range [][]string{{log}, {log, diff}, {diff, log}, {log, show}, {show, log}, {log, diff, show}, {log, log}, {show, diff, log}} {
		c, err := f.load(GrantedText(given))
		if err != nil {
			t.Errorf("%q: %v", given, err)
			continue
		}
		for argument, rule := range map[string]string{"status": "", "log": log, "diff": diff, "show": show, "push": "none"} {
			want := rule == "" || slices.Contains(given, rule) || argument == "log" && slices.Contains(given, show)
			if got := c.CheckCommand(filepath.Join(f.bin, "git"), []string{"git", argument}).Allow; got != want {
				t.Errorf("%q: git %s: allowed %v, not %v", given, argument, got, want)
			}
		}
	}
}

// A session replaces the path of a given rule, and that of a rule of the policy, by a symlink.
func TestGivenPathsStay(t *testing.T) {
	f := newFixture(t)
	path := filepath.Join(f.dir, "out", "tool")
	p, err := f.grants().propose(&message.Grant{Resource: "fs", Action: "execute", Target: path})
	childtest.Must(t, err)
	check := func() error {
		c, err := f.load(GrantedText([]string{p.rule}))
		childtest.Must(t, err)
		return CheckGiven(c, f.granted, f.dir)
	}
	begun, err := f.load(GrantedText(nil))
	childtest.Must(t, err)
	same := func() error {
		c, err := f.load(GrantedText([]string{p.rule}))
		childtest.Must(t, err)
		return CheckSame(begun, c)
	}
	if err := check(); err != nil {
		t.Errorf("before it exists: %v", err)
	}
	childtest.Must(t, os.WriteFile(path, nil, 0o700))
	if err := check(); err != nil {
		t.Errorf("a file: %v", err)
	}
	if err := same(); err != nil {
		t.Errorf("the policy is the same: %v", err)
	}
	childtest.Must(t, os.Remove(path))
	childtest.Must(t, os.Symlink(filepath.Join(f.dir, "private"), path))
	if err := check(); err == nil || !strings.Contains(err.Error(), "/private") {
		t.Errorf("a symlink: %v", err)
	}
	if err := same(); err != nil {
		t.Errorf("the policy is the same: %v", err)
	}
	childtest.Must(t, os.Symlink(filepath.Join(f.dir, "private"), filepath.Join(f.dir, "out", "shared")))
	if err := same(); err == nil || !strings.Contains(err.Error(), "/private") {
		t.Errorf("a symlink for a rule of the policy: %v", err)
	}
}

// A rule relative to the workspace, or to a home that is a symlink, is about the path that it names.
func TestGivenPathsAreKnown(t *testing.T) {
	f := newFixture(t)
	home := filepath.Join(f.dir, "link")
	childtest.Must(t, os.Symlink("home", home))
	for written, want := range map[string]string{
		"a/b": f.dir + "/ws/a/b", "./a": f.dir + "/ws/a", "~/a": f.dir + "/home/a", f.dir + "/x/./y": f.dir + "/x/y",
	} {
		if got := absolute(written, filepath.Join(f.dir, "ws"), home); got != want {
			t.Errorf("%s: %s, not %s", written, got, want)
		}
	}
}
