// Package policytest provides policies and a file tree for tests.
package policytest

import (
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
)

// Path is an fs rule for a path.
func Path(path string, caps policy.Caps) policy.FSRule { return policy.FSRule{Path: path, Caps: caps} }

// Match is an fs rule for a pattern.
func Match(pattern string, caps policy.Caps) policy.FSRule {
	return policy.FSRule{Match: pattern, Caps: caps}
}

// Optional makes a rule optional.
func Optional(r policy.FSRule) policy.FSRule { r.Optional = true; return r }

// Unprotected is a rule with unprotect.
func Unprotected(r policy.FSRule) policy.FSRule { r.Unprotect = true; return r }

// Secret is a rule with secret.
func Secret(r policy.FSRule) policy.FSRule { r.Secret = true; return r }

// Host is a net rule for a host.
func Host(h string, allow bool) policy.NetRule { return policy.NetRule{Host: h, Allow: allow} }

// Command is a command rule; without lists of arguments it allows any.
func Command(n string, a ...[]string) policy.CommandRule {
	return policy.CommandRule{Name: n, Args: a, HasArgs: a != nil}
}

// numbered sets a separate line for every rule of a session layer.
func numbered(l policy.SourceLayer) policy.SourceLayer {
	line := 0
	next := func(p *policy.Position) {
		line++
		if p.File == "" {
			*p = policy.Position{File: "p.toml", Line: line, Col: 1}
		}
	}
	for i := range l.FS {
		next(&l.FS[i].Position)
	}
	for i := range l.Net {
		next(&l.Net[i].Position)
	}
	for i := range l.Env {
		next(&l.Env[i].Position)
	}
	for i := range l.Commands {
		next(&l.Commands[i].Position)
	}
	return l
}

// Workspace is where the tests' workspace is.
const Workspace = "/w"

// Source is a policy of layers, whose rules have a line each. A layer without an authority is the session's.
func Source(layers ...policy.SourceLayer) *policy.Source {
	s := &policy.Source{Name: "test", Workspace: Workspace, Home: "/home/u", Path: "/usr/bin:/bin"}
	for _, l := range layers {
		if l.Authority == policy.Builtin {
			l.Authority = policy.Session
		}
		s.Layers = append(s.Layers, numbered(l))
	}
	return s
}

// Machine is the file tree of the tests.
func Machine() fspathtest.Tree {
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

// testingT is the common part of tests, benchmarks and rapid's tests.
type testingT interface {
	Helper()
	Fatal(args ...any)
}

// Compile compiles layers for Machine.
func Compile(t testingT, layers ...policy.SourceLayer) *policy.Compiled {
	t.Helper()
	return CompileOn(t, Machine(), layers...)
}

// CompileOn compiles layers for another machine.
func CompileOn(t testingT, sys fspath.FileSystem, layers ...policy.SourceLayer) *policy.Compiled {
	t.Helper()
	return CompileSource(t, Source(layers...), sys)
}

// CompileSource compiles a policy that isn't only layers.
func CompileSource(t testingT, src *policy.Source, sys fspath.FileSystem) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(src, sys)
	childtest.Must(t, err)
	return c
}
