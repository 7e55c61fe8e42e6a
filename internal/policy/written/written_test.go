package written_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/written"
)

func compile(text, workspace, home string) (*policy.Compiled, error) {
	return written.Compile(written.Request{Policies: []string{"p.toml"}, Workspace: workspace, Home: home, Dir: "/Users/me/d"},
		func(path string, _ int) ([]byte, error) {
			if path != "/Users/me/d/p.toml" {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
}

// Paths are taken as they are written, except for what is a link on every Mac.
func TestPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/a": "/private/tmp/a", "/var/a": "/private/var/a", "/etc": "/private/etc", "/private/tmp/a": "/private/tmp/a", "/tmpx": "/tmpx",
		"/System/Volumes/Data/Users/a": "/Users/a", "/System/Volumes/Data": "/", "/System/Volumes/Data/tmp/a": "/private/tmp/a", "/System/Volumes": "/System/Volumes",
		"a": "/private/tmp/ws/a", "~/a": "/Users/me/a", "/home/a": "/home/a", "/x/../y": "/y",
	} {
		c, err := compile("version = 1\n[access]\nruntime = false\n[[access.fs]]\npath = '"+path+"'\nread = true\n", "/tmp/ws", "/Users/me")
		childtest.Must(t, err)
		i := slices.IndexFunc(c.Rules, func(r *policy.Rule) bool { return r.ID == "fs.1" })
		if got := c.Rules[i].FS.Path; got != want || c.Workspace != "/private/tmp/ws" {
			t.Errorf("%s: %s in %s", path, got, c.Workspace)
		}
	}
}

// The built-in rules are those of macOS, without what only Linux has.
func TestBuiltin(t *testing.T) {
	c, err := compile("version = 1\n", "/Users/me/ws", "/Users/me")
	childtest.Must(t, err)
	paths := map[string]bool{}
	for _, r := range c.Rules {
		if r.FS != nil && r.Authority != policy.Builtin {
			paths[r.FS.Path] = true
			if strings.HasPrefix(r.FS.Path, "/proc") || strings.HasPrefix(r.FS.Path, "/sys/") || strings.HasPrefix(r.FS.Path, "/lib") {
				t.Errorf("%s is about %s", r.ID, r.FS.Path)
			}
		}
	}
	for _, p := range []string{"/System", "/usr", "/private/etc/hosts", "/private/var/db/dyld", "/Library/Developer", "/opt/homebrew/bin", "/dev/null"} {
		if !paths[p] {
			t.Errorf("no rule is about %s", p)
		}
	}
	for path, want := range map[string]bool{"/opt/homebrew/bin/git": true, "/opt/homebrew/var/db": false, "/Users/me/Library/Keychains/a": false} {
		if got := c.CheckFS(path, policy.Read).Allow; got != want {
			t.Errorf("read %s: %v", path, got)
		}
	}
	if c.CheckFS("/Users/me/ws/Library/LaunchAgents/a", policy.Create).Allow || !c.CheckFS("/Users/me/ws/Library/a", policy.Create).Allow {
		t.Error("protect")
	}
}

// Programs are found in the PATH of macOS, and mistakes are reported.
func TestPrograms(t *testing.T) {
	c, err := compile("version = 1\n[access.commands.git]\n[access.commands.'/tmp/x']\n", "/Users/me/ws", "/Users/me")
	childtest.Must(t, err)
	var found []string
	for _, r := range c.Rules {
		if r.Command != nil {
			found = append(found, r.Command.Program)
		}
	}
	slices.Sort(found)
	if want := []string{"/private/tmp/x", "/usr/bin/git"}; !slices.Equal(found, want) {
		t.Errorf("%v", found)
	}
	if _, err := compile("version = 2\n", "", "/Users/me"); err == nil {
		t.Error("an unknown version compiles")
	}
	if _, err := compile("version = 1\n", "", "me"); err == nil {
		t.Error("a relative home is accepted")
	}
}
