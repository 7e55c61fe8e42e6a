//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where a symlink has replaced a built-in grant's folder, or one above, its target isn't granted.
func TestGrantsFollowNoSymlink(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.write(t, "package.json", "{}")
		p.write(t, "go.mod", "module x\n")
		for _, row := range []struct{ swapped, file string }{
			{".npm", ".npm/x"},
			{".cache", ".cache/go-build/x"},
			{"go", "go/pkg/mod/x"},
			{".pyenv", ".pyenv/shims/x"},
		} {
			for _, top := range []string{"", ".ssh"} {
				p.write(t, filepath.Join("../home", top, row.file), "SECRET")
			}
			reads := func() outcome {
				cmd := p.confined(nil, "cat", filepath.Join(p.home, row.file))
				cmd.Env = append(cmd.Env, "PATH="+p.home+"/.pyenv/shims:"+searchPath)
				return run(t, cmd)
			}
			if got := reads(); got.stdout != "SECRET" {
				t.Fatalf("%s: control: %+v", row.swapped, got)
			}
			must(t, os.RemoveAll(filepath.Join(p.home, row.swapped)))
			must(t, os.Symlink(filepath.Join(".ssh", row.swapped), filepath.Join(p.home, row.swapped)))
			p.own(t)
			dry := run(t, p.confined([]string{"--dry-run"}, "true"))
			if want := " as a symlink leads to " + filepath.Join(p.home, ".ssh", row.swapped); row.swapped != ".pyenv" && !strings.Contains(dry.stdout, want) {
				t.Errorf("%s: --dry-run prints %q, want %q", row.swapped, dry.stdout, want)
			}
			if got := reads(); got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "Permission denied") {
				t.Errorf("%s: %+v", row.swapped, got)
			}
		}
	})
}
