package policyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		command string
		files   tree
		want    string
	}{
		{"", tree{}, "[]"},
		{"", tree{"/w/go.mod": "", "/w/.git/config": "", "/w/deep/package.json": ""}, "[{preset:go go.mod} {preset:git .git}]"},
		{"/usr/bin/python3.12", tree{}, "[{preset:python python}]"},
		{"cargo", tree{"/w/Cargo.toml": ""}, "[{preset:rust Cargo.toml}]"},
		{"g++-13", tree{}, "[{preset:c g++}]"},
		{"pythonic", tree{}, "[]"},
	} {
		if got := fmt.Sprint(detect("/w", c.command, c.files)); got != c.want {
			t.Errorf("%s in %v: %s, want %s", c.command, c.files, got, c.want)
		}
	}
}

// Programs in PATH can be executed, with the files that they load, but none that a command could have put there.
func TestToolchains(t *testing.T) {
	s := newScene(t)
	for _, d := range []string{".cargo/bin", ".rustup", "tools/bin", "work/bin"} {
		childtest.Must(t, os.MkdirAll(filepath.Join(s.home, d), 0o755))
	}
	childtest.Must(t, os.WriteFile(s.home+"/.cargo/credentials.toml", nil, 0o600))
	childtest.Must(t, os.Symlink(s.home+"/.ssh", s.home+"/tools/link"))
	childtest.Must(t, os.Mkdir(s.work+"/bin", 0o755))
	path := strings.Join([]string{
		s.home + "/.pyenv/shims", s.home + "/.cargo/bin", s.home + "/tools/bin", s.home + "/tools/link", s.home, s.work + "/bin", "relative", "/tmp", "/usr/bin",
	}, ":")
	load := func(r Request) *policy.Compiled {
		t.Helper()
		r.Dir, r.Home, r.Path = s.work, s.home, path
		src, _, err := Load(r, hostfs.Machine{})
		childtest.Must(t, err)
		return policytest.CompileSource(t, src, hostfs.Machine{})
	}
	const rx = policy.Read | policy.Execute
	for _, r := range []struct {
		request Request
		gives   policy.Caps
	}{{Request{}, rx}, {Request{NoDetect: true}, 0}} {
		c := load(r.request)
		for _, dir := range []string{".pyenv/shims/x", ".pyenv/versions/x", ".cargo/bin/x", ".rustup/x", "tools/bin/x"} {
			if got := c.Caps(filepath.Join(s.home, dir)); got != r.gives {
				t.Errorf("%+v: %s on %s", r.request, got, dir)
			}
		}
		for _, p := range []string{s.home, s.home + "/.ssh/id_ed25519", s.home + "/.cargo/credentials.toml", s.home + "/tools/x", "/tmp/x"} {
			if got := c.Caps(p); got != 0 {
				t.Errorf("%+v: %s on %s", r.request, got, p)
			}
		}
	}
	if c := load(Request{Policies: []string{"preset:readonly"}}); c.Caps(s.home+"/tools/bin/x") != 0 {
		t.Error("a policy with rules for files gets PATH, too")
	}
	if c := load(Request{Policies: []string{"preset:readonly"}, AddDetected: true}); c.Caps(s.home+"/tools/bin/x") != rx || c.Caps(s.work+"/x") != rx {
		t.Error("with a policy, PATH isn't granted, or replaces the policy")
	}

	// A file known to be public is readable although it looks like a credential.
	for file, want := range map[string]bool{".pyenv/x.key": true, ".rustup/x.key": true, "tools/bin/x.key": false, "tools/bin/x": true} {
		if got := load(Request{}).CheckFS(filepath.Join(s.home, file), policy.Read).Allow; got != want {
			t.Errorf("%s is readable: %v", file, got)
		}
	}

	// A command that npm has linked comes with the packages that it's one of, unless they're the workspace's.
	for _, dir := range []string{s.home + "/tools", s.work} {
		childtest.Must(t, os.MkdirAll(dir+"/lib/node_modules/x", 0o755))
		childtest.Must(t, os.WriteFile(dir+"/lib/node_modules/x/cli.js", nil, 0o755))
		childtest.Must(t, os.Symlink("../lib/node_modules/x/cli.js", dir+"/bin/x"))
	}
	for command, gives := range map[string]policy.Caps{"x": rx, s.work + "/bin/x": 0, "": 0, "bin/x": 0, "nowhere": 0, "/bin/sh": 0} {
		if got := load(Request{Command: command}).Caps(s.home + "/tools/lib/node_modules/y/z"); got != gives {
			t.Errorf("%q: %s on the packages next to it", command, got)
		}
	}
}

// Folders are made beneath the home and the workspace, and nowhere else.
func TestEnsure(t *testing.T) {
	s := newScene(t)
	childtest.Must(t, os.Mkdir(s.home+"/out", 0o755))
	childtest.Must(t, os.Symlink(t.TempDir(), s.home+"/out/link"))
	policyOf := func(path string) *policy.Source {
		t.Helper()
		file := s.home + "/p.toml"
		childtest.Must(t, os.WriteFile(file, fmt.Appendf(nil, "version = 1\n[[access.fs]]\npath = %q\nread = true\nensure = true\n", path), 0o600))
		src, _, err := Load(Request{Policies: []string{file}, Dir: s.work, Home: s.home}, hostfs.Machine{})
		childtest.Must(t, err)
		return src
	}
	for path, made := range map[string]string{"~/.cache/new/er": s.home + "/.cache/new/er", "out/x": s.work + "/out/x", s.home + "/abs": s.home + "/abs"} {
		childtest.Must(t, Ensure(policyOf(path)))
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	childtest.Must(t, os.Symlink(s.home, s.work+"/home"))
	for _, path := range []string{"~/out/link/x", "/tmp/toolguard-ensure", "home/x"} {
		if err := Ensure(policyOf(path)); err == nil || !strings.Contains(err.Error(), "p.toml:2:1: ensure: the folder") {
			t.Errorf("%s: %v", path, err)
		}
	}
	src := policyOf("~/slash")
	src.Home += "/"
	childtest.Must(t, Ensure(src))
	if _, err := os.Stat(s.home + "/slash"); err != nil {
		t.Error(err)
	}
	homeless := policyOf("/tmp/toolguard-ensure")
	homeless.Home = ""
	if Ensure(homeless) == nil {
		t.Error("without a home a folder elsewhere is made")
	}
	src.Layers[0].FS[0].Ensure = false
	src.Layers[0].FS[0].Path = "~/unasked"
	childtest.Must(t, Ensure(src))
	if _, err := os.Stat(s.home + "/unasked"); err == nil {
		t.Error("a folder is made for a rule that doesn't ask for it")
	}
	// A built-in rule's folder is made for programs that use it; a failure isn't reported.
	childtest.Must(t, os.WriteFile(s.work+"/package.json", nil, 0o600))
	src, _, err := Load(Request{Dir: s.work, Home: s.home}, hostfs.Machine{})
	childtest.Must(t, err)
	childtest.Must(t, Ensure(src))
	if _, err := os.Stat(s.home + "/.npm"); err != nil {
		t.Error(err)
	}
	childtest.Must(t, errors.Join(os.Remove(s.home+"/.npm"), os.Symlink(s.home+"/.ssh", s.home+"/.npm")))
	if got := s.compile(t, "preset:node").Caps(s.home + "/.ssh/id_ed25519"); got != 0 {
		t.Errorf("a symlink that a command put in place of its cache grants %s", got)
	}
	src.Home = "/proc"
	childtest.Must(t, Ensure(src))
}
