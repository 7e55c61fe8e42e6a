//go:build linux

package attacks

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

type user = childtest.User

var users = childtest.NamedUsers

// account is an ordinary user with an account, which firejail asks for.
func account(t *testing.T) user {
	t.Helper()
	uid, ok := childtest.Account()
	if !ok {
		t.Skip("needs the account of an ordinary user")
	}
	return user{Name: "nobody", ID: uid} // the name by which rows know ordinary users
}

// scene is the small world that one run of an attack happens in. All of it belongs to the user, so that nothing but
// the policy can be the reason for a denial.
type scene struct {
	user    user
	backend *backend
	dir     string
	vars    map[string]string // the value of $NAME in a row
	env     []string
}

// The trees that no attack may change, and the text of the files in them.
var untouchable = map[string]string{
	"home/.ssh/id_ed25519":      "SECRET key",
	"outside/file.txt":          "SECRET outside",
	"ro/file.txt":               "read me",
	"ro/dir/":                   "",
	"secret/key":                "granted for reading",
	"secretary/note":            "SECRET note",
	"ws/private/key":            "SECRET key of the workspace",
	"ws/private/other":          "SECRET",
	"ws/kept/file":              "kept",
	"ws/nest/inner/file":        "nested",
	"ws/.env":                   "SECRET=1",
	"ws/repo/.git/config":       "[core]",
	"ws/repo/.git/hooks/sample": "#!/bin/sh",
}

func newScene(t *testing.T, u user, b *backend, more string) *scene {
	t.Helper()
	top, err := os.MkdirTemp("/tmp", "toolguard-attack-") // not t.TempDir, which other users can't enter
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	s := &scene{user: u, backend: b, dir: filepath.Join(top, "scene")}
	must(t, os.Chmod(top, 0o755))
	for name, text := range untouchable {
		s.write(t, name, text)
	}
	must(t, os.Symlink("key", s.path("ws/private/key-by-link")))
	must(t, os.Symlink("../data.txt", s.path("ws/private/out")))
	s.write(t, "ws/data.txt", "data")
	s.write(t, "ws/sub/inner.txt", "inner")
	s.write(t, "run/", "")
	s.write(t, "peer/", "")
	must(t, os.Mkdir(s.path("tools"), 0o755))
	copyFile(t, filepath.Join(programs(t), "noop"), s.path("tools/noop"))
	copyFile(t, filepath.Join(programs(t), "setuid_target"), s.path("run/setuid"))
	s.name(programs(t))
	s.write(t, "policy.toml", s.expand(policy+more))
	s.own(t, top)
	return s
}

// policy is the attacks' policy. The rules' ids in the rows follow their order here; a row's own come after.
const policy = `version = 1
name = "attacks"
workspace = "$WS"

[access]
default = { fs = "deny", net = "deny", env = "deny" }

[[access.fs]] # fs.1
path = "."
read = true
write = true

[[access.fs]] # fs.2
path = "$BIN"
read = true
execute = true

[[access.fs]] # fs.3
path = "$RO"
read = true

[[access.fs]] # fs.4
path = "$TOOLS"
read = true

[[access.fs]] # fs.5
path = "$DIR/secret"
read = true

[[access.fs]] # fs.6
path = "$RUN"
read = true
write = true
execute = true

[[access.env]]
name = "PATH"
read = true

[[access.env]]
name = "TMPDIR"
read = true
`

func (s *scene) name(programs string) {
	s.vars = map[string]string{
		"DIR": s.dir, "BIN": programs, "WS": s.path("ws"), "RO": s.path("ro"), "OUT": s.path("outside"),
		"KEY": s.path("home/.ssh/id_ed25519"), "TOOLS": s.path("tools"), "NOOP": s.path("tools/noop"),
		"SETUID": s.path("run/setuid"), "RUN": s.path("run"), "POLICY": s.path("policy.toml"),
		"GRANTED": s.path("secret/key"), "SECRETARY": s.path("secretary/note"), "EVENTS": s.path("events.json"),
	}
	s.env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.path("home"), "TOOLGUARD_TEST_TOKEN=SECRET"}
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) expand(text string) string {
	return os.Expand(text, func(name string) string {
		if v, ok := s.vars[name]; ok {
			return v
		}
		return "$" + name
	})
}

// write makes a file, or a folder where the name ends in a slash.
func (s *scene) write(t *testing.T, name, text string) {
	t.Helper()
	p := s.path(name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	if strings.HasSuffix(name, "/") {
		must(t, os.MkdirAll(p, 0o755))
		return
	}
	must(t, os.WriteFile(p, []byte(text), 0o644))
}

// own changes the owner of everything to the user, except the set-user-ID program, which is root's if possible.
func (s *scene) own(t *testing.T, top string) {
	t.Helper()
	must(t, filepath.WalkDir(top, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || os.Getuid() != 0 || p == s.vars["SETUID"] {
			return err
		}
		return os.Lchown(p, s.user.ID, s.user.ID)
	}))
	must(t, os.Chmod(s.vars["SETUID"], 0o755|fs.ModeSetuid))
}

// snapshot describes the trees that no attack may change, without what this one may change by a stated gap.
func (s *scene) snapshot(t *testing.T, a attack) string {
	t.Helper()
	var b strings.Builder
	for _, tree := range []string{
		"home", "outside", "ro", "secret", "secretary", "tools", "policy.toml", "ws/private", "ws/kept", "ws/nest", "ws/.env", "ws/repo",
	} {
		must(t, filepath.WalkDir(s.path(tree), func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s", p, d.Type())
			if a.gap != "chmod" {
				fmt.Fprintf(&b, " %v %d %v", info.Mode(), info.Sys().(*syscall.Stat_t).Uid, info.ModTime())
			}
			if d.Type().IsRegular() {
				text, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, " %d bytes %.40q", len(text), text)
			}
			b.WriteByte('\n')
			return nil
		}))
	}
	return b.String()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, text, 0o755))
}
