package policyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// The target of a symlink to a folder in PATH is granted only if it is a known toolchain, or an installation's link to its own version.
func TestToolchainsBehindLinks(t *testing.T) {
	real := map[string]string{ // what each folder in PATH leads to
		"/h":     "/h",
		"/w/bin": "/srv/data", "/h/tools": "/srv/data", "/h/up": "/h/tools", "/h/self/bin": "/h/self/bin", "/srv/own/bin": "/srv/own/bin",
		"/h/.nix-profile/bin": "/nix/store/abc-profile/bin", "/opt/x/now/bin": "/opt/x/1.2/bin", "/w/opt": "/opt/x/1.2", "/w/cargo": "/h/.cargo/bin",
		"/h/root": "/", "/h/all": "/h", "/all": "/opt", "/srv": "/srv", "/h/usr": "/usr/lib/x", "/usr/lib/x": "/usr/lib/x", "/bin": "/usr/bin", "/h/w": "/w/out",
		"/h/.pyenv/shims": "/h/.pyenv/shims", "/bin/x": "/bin/x", "/sbin/x": "/sbin/x", "/above": "/above", "/opt": "/opt", "/opt/only": "/opt/only", "relative": "relative", "a/relative": "a/relative",
	}
	for dir, want := range map[string]string{
		"/w/bin": "[] false", "/h/tools": "[] false", "/h/up": "[] false", "/h/self/bin": "[/h/self/bin] false", "/srv/own/bin": "[/srv/own/bin] false",
		"/h/.nix-profile/bin": "[/nix/store/abc-profile] true", "/opt/x/now/bin": "[/opt/x] false", "/w/opt": "[] false", "/w/cargo": "[/h/.rustup /h/.cargo/bin] true",
		"/h/root": "[] false", "/h/all": "[] false", "/all": "[] false", "/srv": "[] false", "/h/usr": "[] false", "/usr/lib/x": "[] false", "/bin": "[] false",
		"/h/w": "[] false", "/h/.pyenv/shims/": "[/h/.pyenv] true", "/bin/x": "[] false", "/sbin/x": "[] false", "relative": "[] false", "a/relative": "[] false", "/nowhere": "[] false",
		"/above": "[] false", "/opt": "[] false", "/opt/only": "[/opt/only] false",
	} {
		l := &loader{req: Request{Home: "/h"}, files: leading{to: real}, workspaceDir: "/w"}
		need, known := l.toolchain(dir)
		if got := fmt.Sprint(need, known); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	for home, want := range map[string]string{"/h": "[] false", "": "[/srv/own/bin] false"} { // a home around it, and none
		l := &loader{req: Request{Home: home}, files: leading{to: map[string]string{"/srv/own/bin": "/srv/own/bin", "/h": "/srv/own/bin/home"}}, workspaceDir: "/w"}
		if need, known := l.toolchain("/srv/own/bin"); fmt.Sprint(need, known) != want {
			t.Errorf("with the home %q: %v %v, want %s", home, need, known, want)
		}
	}
}

// The packages of node that a command's link leads into are granted, but for the workspace's, and where it's in the workspace.
func TestPackages(t *testing.T) {
	for file, row := range map[string]struct{ leads, dir, want string }{
		"/h/bin/x":     {"/h/lib/node_modules/x/cli.js", "/h/bin", "[/h/lib/node_modules]"},
		"/h/bin/plain": {"/h/bin/plain", "/h/bin", "[]"},
		"/usr/bin/x":   {"/usr/lib/node_modules/x/cli.js", "/usr/bin", "[]"}, // runtime's rules do
		"/h/bin/in":    {"/w/node_modules/x/cli.js", "/h/bin", "[]"},
		"/w/bin/x":     {"/h/lib/node_modules/x/cli.js", "/w/bin", "[]"},
		"/h/link/x":    {"/h/lib/node_modules/x/cli.js", "/w/bin", "[]"},
	} {
		l := &loader{files: leading{to: map[string]string{file: row.leads, filepath.Dir(file): row.dir}}, workspaceDir: "/w"}
		if got := fmt.Sprint(l.packages(file)); got != row.want {
			t.Errorf("%s: %s, want %s", file, got, row.want)
		}
	}
}

// The target of a user's symlink is granted for paths that aren't writable and can't have credentials.
func TestSettingsBehindALink(t *testing.T) {
	s := newScene(t)
	childtest.Must(t, os.MkdirAll(s.home+"/dotfiles", 0o755))
	childtest.Must(t, os.Rename(s.home+"/.gitconfig", s.home+"/dotfiles/git"))
	childtest.Must(t, os.Symlink("dotfiles/git", s.home+"/.gitconfig"))
	if got := s.compile(t, "preset:git").Caps(s.home + "/dotfiles/git"); got != policy.Read {
		t.Errorf("the user's own settings give %s", got)
	}
}

// leading is a file tree in which paths lead elsewhere.
type leading struct {
	tree
	to map[string]string
}

func (l leading) Real(path string) (string, error) {
	if to, ok := l.to[path]; ok {
		return to, nil
	}
	return "", os.ErrNotExist
}

// A folder that replaces a built-in grant's folder, or one above it, once the policy is loaded is not granted where it leads.
func TestSwappedForALink(t *testing.T) {
	for _, row := range []struct{ marker, swapped, file string }{
		{"package.json", ".npm", ".npm/x"},
		{"go.mod", ".cache/go-build", ".cache/go-build/x"},
		{"go.mod", ".cache", ".cache/go-build/x"},
		{"go.mod", "go", "go/bin/x"}, // read alone, but whatever it is
		{"go.mod", ".config/go/telemetry", ".config/go/telemetry/x"},
		{"", ".pyenv", ".pyenv/shims/x"},
		{"", ".rustup", ".rustup/x"},
		{"", "tools/bin", "tools/bin/x"},
		{"", "tools", "tools/bin/x"},
	} {
		t.Run(row.swapped, func(t *testing.T) {
			s := newScene(t)
			for _, home := range []string{s.home, s.home + "/private"} {
				for _, dir := range []string{filepath.Dir(row.file), ".cargo/bin", "tools/bin", ".pyenv/shims"} {
					childtest.Must(t, os.MkdirAll(filepath.Join(home, dir), 0o755))
				}
				childtest.Must(t, os.WriteFile(filepath.Join(home, row.file), nil, 0o600))
			}
			if row.marker != "" {
				childtest.Must(t, os.WriteFile(filepath.Join(s.work, row.marker), nil, 0o600))
			}
			src, _, err := Load(Request{
				Dir: s.work, Home: s.home, Path: s.home + "/.pyenv/shims:" + s.home + "/.cargo/bin:" + s.home + "/tools/bin:/usr/bin",
			}, hostfs.Machine{})
			childtest.Must(t, err)
			caps := func() policy.Caps {
				t.Helper()
				c := policytest.CompileSource(t, src, hostfs.Machine{})
				to, err := filepath.EvalSymlinks(filepath.Join(s.home, row.file))
				childtest.Must(t, err)
				return c.Caps(to)
			}
			if got := caps(); got&policy.Read == 0 {
				t.Fatalf("control: %s", got)
			}
			link := filepath.Join(s.home, row.swapped)
			childtest.Must(t, os.Rename(link, link+".old"))
			childtest.Must(t, os.Symlink(filepath.Join(s.home, "private", row.swapped), link))
			if got := caps(); got != 0 {
				t.Errorf("where the symlink leads: %s", got)
			}
		})
	}
}
