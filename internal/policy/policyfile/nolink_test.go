package policyfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// What takes the place of a built-in grant's folder, or of one above it, once the policy is loaded is not granted where it leads.
func TestSwappedForALink(t *testing.T) {
	for _, row := range []struct{ marker, swapped, file string }{
		{"package.json", ".npm", ".npm/x"},
		{"go.mod", ".cache/go-build", ".cache/go-build/x"},
		{"go.mod", ".cache", ".cache/go-build/x"},
		{"go.mod", "go", "go/bin/x"}, // read alone, but whatever it is
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
			}, Machine{})
			childtest.Must(t, err)
			caps := func() policy.Caps {
				t.Helper()
				c, err := policy.Compile(src, Machine{})
				childtest.Must(t, err)
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
