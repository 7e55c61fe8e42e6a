package loader

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// open is an open file.
type open struct {
	path string
	fd   int
}

// Few names, so that rules meet, which are each other's beginnings and ends, and two as long as names can be.
var components = []string{
	"a", "b", "ab", "aba", "b.a", ".env", "x.env", "deeper", "eight_by", "sixteen_letters.", "long" + strings.Repeat("g", 64),
	strings.Repeat("n", 255), strings.Repeat("n", 254) + "m", "\xff\xfe", "self",
}

// grow makes a tree and opens all of it.
func grow(t *testing.T, r *rand.Rand) []open {
	t.Helper()
	root := scene(t)
	files := []open{opened(t, root)}
	for len(files) < 30 {
		at := files[r.IntN(len(files))].path
		path := filepath.Join(at, components[r.IntN(len(components))])
		if len(path) > 2000 {
			continue
		}
		var err error
		switch r.IntN(4) {
		case 0:
			err = os.WriteFile(path, nil, 0o644)
		case 1:
			err = os.Link(files[r.IntN(len(files))].path, path)
		default:
			err = os.Mkdir(path, 0o755)
		}
		if err == nil {
			files = append(files, opened(t, path))
		}
	}
	return files
}

func opened(t testing.TB, path string) open {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	return open{path, fd}
}

func randomPolicy(t *testing.T, r *rand.Rand, files []open) *policy.Compiled {
	t.Helper()
	src := &policy.Source{Name: "test", Workspace: files[0].path, Home: "/", Path: "/usr/bin:/bin"}
	for _, authority := range []policy.Authority{policy.Host, policy.Agent, policy.Session} {
		if r.IntN(3) == 0 {
			continue
		}
		l := policy.SourceLayer{Authority: authority}
		l.Defaults[policy.FS] = policy.DefaultAction(r.IntN(3))
		if r.IntN(2) == 0 {
			l.FS = append(l.FS, policy.FSRule{Path: "/", Caps: policy.AllCaps})
		}
		for range r.IntN(12) {
			l.FS = append(l.FS, randomRule(r, files))
		}
		if l.Protect = policy.ProtectMode(r.IntN(3)); l.Protect != policy.ProtectOff {
			for range 1 + r.IntN(3) {
				p := policy.FSRule{Match: randomPattern(r, files)}
				if r.IntN(2) == 0 {
					p.Position.File = "builtin:protect" // it's no rule that only adds
				}
				l.Protected = append(l.Protected, p)
			}
		}
		if l.Secrets = policy.ProtectMode(r.IntN(3)); l.Secrets != policy.ProtectOff {
			for range 1 + r.IntN(3) {
				l.SecretFiles = append(l.SecretFiles, policy.FSRule{Match: randomPattern(r, files), Caps: policy.Read * policy.Caps(r.IntN(2))})
			}
		}
		if n := len(src.Layers); n > 0 && r.IntN(2) == 0 { // one table in the image for two layers
			l.Protected, l.Protect, l.SecretFiles, l.Secrets = src.Layers[n-1].Protected, src.Layers[n-1].Protect, src.Layers[n-1].SecretFiles, src.Layers[n-1].Secrets
		}
		src.Layers = append(src.Layers, l)
	}
	c, err := policy.Compile(src, tree{Extra: randomMounts(r, files)})
	must(t, err)
	return c
}

// randomMounts are of folders of the tree, in it or around it. They needn't be there: the kernel is asked about names.
func randomMounts(r *rand.Rand, files []open) []fspath.Mount {
	place := func() string {
		path := files[r.IntN(len(files))].path
		for r.IntN(3) == 0 {
			path = filepath.Dir(path)
		}
		return path
	}
	mounts := []fspath.Mount{{ID: 1, Root: "/", At: "/"}}
	for id := range r.IntN(4) {
		mounts = append(mounts, fspath.Mount{ID: id + 2, Parent: 1, Root: place(), At: place()})
	}
	return mounts
}

func randomRule(r *rand.Rand, files []open) policy.FSRule {
	f := policy.FSRule{Caps: policy.Caps(r.IntN(int(policy.AllCaps) + 1)), Unprotect: r.IntN(3) == 0, Secret: r.IntN(3) == 0}
	if r.IntN(4) == 0 {
		f.Position.File = "preset:x" // a built-in rule only adds
	}
	if r.IntN(2) == 0 {
		f.Match = randomPattern(r, files)
		return f
	}
	f.Path = files[r.IntN(len(files))].path
	switch r.IntN(4) {
	case 0:
		f.Path = filepath.Join(f.Path, components[r.IntN(len(components))])
	case 1:
		f.Path = filepath.Dir(f.Path)
	}
	return f
}

func randomPattern(r *rand.Rand, files []open) string {
	last := components[r.IntN(len(components))]
	switch r.IntN(4) {
	case 0:
		last = last[:1+r.IntN(len(last))] + "*"
	case 1:
		last = "*" + last[r.IntN(len(last)):]
	}
	pattern := "**/" + last
	for range r.IntN(3) {
		pattern += "/" + components[r.IntN(len(components))]
	}
	switch r.IntN(3) {
	case 0:
		return "/" + pattern
	case 1:
		return filepath.Join(files[r.IntN(len(files))].path, pattern)
	}
	return pattern
}

func rulesOf(c *policy.Compiled) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%+v", c.Aliases)
	for _, l := range c.Layers {
		fmt.Fprintf(&b, "\n%s, default action %d:", l.Authority, l.Defaults[policy.FS])
		for _, rule := range slices.Concat(l.FS.Rules(), l.Protect.Rules(), l.Secrets.Rules()) {
			fmt.Fprintf(&b, "\n\t%s %q %s unprotect=%v secret=%v", rule.ID, rule.FS.Written, rule.FS.Caps, rule.FS.Unprotect, rule.FS.Secret)
		}
	}
	return b.String()
}
