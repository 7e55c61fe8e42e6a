package fspath_test

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
)

func files() fspathtest.Tree {
	return fspathtest.New(map[string]string{
		"/w/src/x": "file", "/w/link": "-> src", "/w/up": "-> ../etc", "/w/abs": "-> /etc/passwd", "/w/loop": "-> loop", "/w/new": "-> nowhere/x",
		"/etc/passwd": "file", "/secret": "unreadable", "/bin/sh": "program", "/proc/7/fd/3": "-> /etc/passwd", "/proc/7/task/8/cwd": "-> /w", "/w/self": "-> /proc/self/fd",
	})
}

func TestResolve(t *testing.T) {
	for _, x := range []struct {
		path   string
		follow bool
		want   fspath.Resolved
	}{
		{"/", true, fspath.Resolved{Path: "/", Kind: fspath.Dir}},
		{"/w/link/x", true, fspath.Resolved{Path: "/w/src/x"}},
		{"/w/link", true, fspath.Resolved{Path: "/w/src", Kind: fspath.Dir}},
		{"/w/link", false, fspath.Resolved{Path: "/w/link", Kind: fspath.Symlink}},
		{"/w/link/", false, fspath.Resolved{Path: "/w/src", Kind: fspath.Dir}}, // as the kernel does
		{"/w/up/passwd", true, fspath.Resolved{Path: "/etc/passwd"}},
		{"/w/link/../abs", true, fspath.Resolved{Path: "/etc/passwd"}},
		{"/w/up/../w/src", true, fspath.Resolved{Path: "/w/src", Kind: fspath.Dir}},
		{"/../../bin/./sh", true, fspath.Resolved{Path: "/bin/sh", Kind: fspath.Program}},
		{"/w/src/a/b", true, fspath.Resolved{Path: "/w/src/a/b", Missing: true}},
		{"/w/src/x/y", true, fspath.Resolved{Path: "/w/src/x/y", Missing: true}},
		{"/proc/self/status", true, fspath.Resolved{Path: "/proc/self/status"}},
		{"/proc/self/root/etc", true, fspath.Resolved{Path: "/etc", Kind: fspath.Dir}},
		{"/proc/self/exe", false, fspath.Resolved{Path: "/proc/self/exe"}},
		{"/proc/7/fd/3", false, fspath.Resolved{Path: "/proc/7/fd/3", Kind: fspath.Symlink}},
	} {
		if got, err := fspath.NewResolver(files()).Resolve(x.path, x.follow); err != nil || got != x.want {
			t.Errorf("%s: %+v, %v, want %+v", x.path, got, err, x.want)
		}
	}
	for path, want := range map[string]string{
		"/w/loop":                "too many symlinks",
		"/w/loop/x":              "too many symlinks",
		"/secret/x":              "permission denied",
		"/w/none/../x":           `".." after something that doesn't exist`,
		"/proc/7/fd/3":           "leads through a link of /proc",
		"/proc/7/task/8/cwd/src": "leads through a link of /proc",
		"/proc/self/cwd":         "leads through a link of /proc",
		"/w/self/3":              "leads through a link of /proc",
	} {
		if got, err := fspath.NewResolver(files()).Resolve(path, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", path, got, err, want)
		}
	}
}

// A rule for /proc/self isn't resolved by the links of this process.
func TestResolveLiteral(t *testing.T) {
	r := fspath.NewResolver(files())
	r.Literal = true
	var links []string
	r.OnLink = func(path string) { links = append(links, path) }
	for path, want := range map[string]string{"/proc/self/fd/3": "/proc/self/fd/3", "/w/self/3": "/proc/self/fd/3", "/proc/self/cwd": "/proc/self/cwd"} {
		if got, err := r.Resolve(path, true); err != nil || got.Path != want {
			t.Errorf("%s: %+v, %v, want %s", path, got, err, want)
		}
	}
	if len(links) != 1 || links[0] != "/w/self" {
		t.Errorf("symlinks on the way: %q", links)
	}
}
