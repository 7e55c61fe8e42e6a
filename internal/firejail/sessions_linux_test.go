package firejail

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/mounts/mountstest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

func TestMain(m *testing.M) { sessions.Main(m) }

// sessions runs the stages of tests within this machine's firejail.
var sessions = mountstest.Program{
	Options: PlanOptions(nil), Report: Report, Wrap: wrap, Parent: "/tmp", Users: ordinaryUsers,
	Canary: func(path string) error { return Program{Path: path}.Canary() },
}

var ordinaryUsers = findUsers()

// findUsers returns the ordinary user that sessions run as: firejail works for users of /etc/passwd alone.
func findUsers() []int {
	if uid, ok := childtest.Account(); ok {
		return []int{uid}
	}
	return nil
}

func wrap(t testing.TB, s *mountstest.Session, cmd *exec.Cmd) error {
	t.Helper()
	prog := program(t)
	text, err := Profile(s.Plan)
	if err != nil {
		return err
	}
	profile, err := ProfileFile(text)
	childtest.Must(t, err)
	t.Cleanup(func() { _ = profile.Close() })
	cmd.ExtraFiles = append(cmd.ExtraFiles, profile)
	cmd.Path, cmd.Args = prog.Path, append([]string{prog.Path}, Args(Options{Network: s.Plan.Network, ProfileFD: 4, Keep: []int{3}}, mountstest.Inner)...)
	if cmd.SysProcAttr != nil {
		u, err := user.LookupId(strconv.Itoa(int(cmd.SysProcAttr.Credential.Uid)))
		childtest.Must(t, err)
		cmd.Env = append(cmd.Env, "HOME="+u.HomeDir, "USER="+u.Username)
	}
	return nil
}

// program returns this machine's firejail.
func program(t testing.TB) Program {
	t.Helper()
	if ordinaryUsers == nil {
		t.Skip("needs an ordinary user with a home")
	}
	p, err := find(paths[0])
	if err != nil {
		t.Skip(err)
	}
	return p
}

func TestSessions(t *testing.T) {
	program(t)
	sessions.Test(t)
}

// TestMisread rejects paths that firejail would read as something else.
func TestMisread(t *testing.T) {
	for _, bad := range []string{"/a,b", "/a*", "/a?", "/[a]", "/a{b", "/${HOME}", "/a\nb", "/a\\b", "/a#b", "/a ", "/a  b", "/a'b", "/a\tb", "/" + strings.Repeat("x", 5000)} {
		if misread(bad) == "" {
			t.Errorf("%q", bad)
		}
	}
	for _, good := range []string{"/a b", "/a.b", "/a~b", "/a(b)", "/a@b", "/\xff", "/a=b", "/a|b"} {
		if why := misread(good); why != "" {
			t.Errorf("%q: %s", good, why)
		}
	}
}

// TestReportPaths rejects rules by name whose paths firejail can't be given, whose files it doesn't make writable, and that grant in a hidden folder.
func TestReportPaths(t *testing.T) {
	ws := mountstest.Tree(t, "/tmp", os.Getuid(), "a,b/file", "dir/sub/file")
	report := func(l policy.SourceLayer) []policy.Enforceability {
		l.Authority = policy.Session
		c, err := policy.Compile(&policy.Source{Name: "test", Workspace: ws, Home: ws, Path: "/bin", Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
		childtest.Must(t, err)
		p, err := mounts.New(c, mounts.Host{}, PlanOptions(nil))
		childtest.Must(t, err)
		abi, _, err := landlock.Probe()
		if err != nil {
			t.Skip(err)
		}
		return Report(c, p, abi)
	}
	rw := policy.Read | policy.Write
	for id, want := range map[string]string{
		"fs.5": "it has the character ,",
		"fs.7": "nothing can be granted beneath a hidden folder",
	} {
		found := false
		for _, row := range report(mountstest.Layer(mountstest.Rule(".", rw), mountstest.Rule("a,b", policy.Read), mountstest.Rule("dir", 0), mountstest.Rule("dir/sub", policy.Read))) {
			if row.ID == id {
				found = true
				if row.Status != policy.NotEnforceable || !strings.Contains(row.Why, want) {
					t.Errorf("%+v", row)
				}
			}
		}
		if !found {
			t.Error("no row", id)
		}
	}
}

// TestCanary runs the canary as every user, as a program that makes no mounts, and in another firejail.
func TestCanary(t *testing.T) {
	p := program(t)
	for _, uid := range sessions.Users {
		cmd := childtest.Command(t, uid, mountstest.Stage{Canary: p.Path})
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "{}" {
			t.Errorf("as %d: %v %s", uid, err, out)
		}
	}
	fake := filepath.Join(t.TempDir(), "firejail")
	childtest.Must(t, os.WriteFile(fake, []byte("#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n"), 0o755))
	if err := (Program{Path: fake}).Canary(); err == nil || !strings.Contains(err.Error(), "canary had the results") {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{"0.9.72": true, "0.9.74": true, "0.9.76rc1": true, "1.0.0": true, "0.9.70": false, "0.9": false, "": false, "x.y.z": false} {
		if isRecent(v) != want {
			t.Error(v)
		}
	}
}
