package policy

import (
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
)

// p makes an fs rule for a path, m one for a match.
func p(path string, caps Caps) FSRule    { return FSRule{Path: path, Caps: caps} }
func m(pattern string, caps Caps) FSRule { return FSRule{Match: pattern, Caps: caps} }
func optional(r FSRule) FSRule           { r.Optional = true; return r }
func unprotected(r FSRule) FSRule        { r.Unprotect = true; return r }
func secret(r FSRule) FSRule             { r.Secret = true; return r }
func host(h string, allow bool) NetRule  { return NetRule{Host: h, Allow: allow} }
func cmd(n string, a ...[]string) CommandRule {
	return CommandRule{Name: n, Args: a, HasArgs: a != nil}
}

// at gives every rule of a session layer a line of its own.
func numbered(l SourceLayer) SourceLayer {
	line := 0
	next := func(p *Place) {
		line++
		if p.File == "" {
			*p = Place{"p.toml", line, 1}
		}
	}
	for i := range l.FS {
		next(&l.FS[i].Place)
	}
	for i := range l.Net {
		next(&l.Net[i].Place)
	}
	for i := range l.Env {
		next(&l.Env[i].Place)
	}
	for i := range l.Commands {
		next(&l.Commands[i].Place)
	}
	return l
}

// ws is where the tests' workspace is.
const ws = "/w"

func source(layers ...SourceLayer) *Source {
	s := &Source{Name: "test", Workspace: ws, Home: "/home/u", Path: "/usr/bin:/bin"}
	for _, l := range layers {
		if l.Authority == Builtin {
			l.Authority = Session
		}
		s.Layers = append(s.Layers, numbered(l))
	}
	return s
}

func machine() fspathtest.Tree {
	return fspathtest.New(map[string]string{
		"/w/src/lib.rs": "file", "/w/src/generated/schema.rs": "file", "/w/tests/main.rs": "file", "/w/.env": "file",
		"/w/README.md": "file", "/w/.git/hooks/pre-push": "file", "/w/.git/config": "file", "/w/node_modules/x/index.js": "file",
		"/w/link": "-> src", "/w/out": "-> /etc", "/w/loop": "-> loop", "/w/dangling": "-> nowhere/x", "/w/deep": "-> link/generated",
		"/home/u/.ssh/id_rsa": "file", "/etc/passwd": "file", "/etc/shadow": "file", "/tmp/tg": "dir", "/secret": "unreadable",
		"/usr/bin/git": "program", "/usr/bin/git-status": "-> git", "/usr/bin/dash": "program", "/usr/bin/sh": "-> dash", "/usr/bin/python3.11": "program", "/usr/bin/python3": "-> python3.11", "/opt/python": "-> /usr/bin/python3", "/usr/bin/notes": "file",
		"/bin": "-> usr/bin", "/dev/stdin": "-> /proc/self/fd/0", "/dev/fd": "-> /proc/self/fd", "/etc/mtab": "-> ../proc/self/mounts",
		"/proc/self": "-> 4711", "/proc/4711/root": "-> /", "/proc/4711/status": "file", "/run": "dir",
	})
}

func compile(t testing.TB, layers ...SourceLayer) *Compiled {
	t.Helper()
	c, err := Compile(source(layers...), machine())
	childtest.Must(t, err)
	return c
}
