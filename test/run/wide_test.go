//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A rule that grants much starts although the built-in rules beneath it grant less, and its grants apply there, too.
func TestWideGrants(t *testing.T) {
	for _, u := range users() {
		p := newFixture(t, u)
		p.write(t, "../wide.toml", "version = 1\n[access]\ndefault = { net = \"deny\" }\n[[access.fs]]\npath = \"/\"\nread = true\nexecute = true\n")
		script := `echo 'cat ../wide.toml' > $TMPDIR/x && chmod +x $TMPDIR/x && cat /etc/passwd > /dev/null && $TMPDIR/x; touch denied || echo denied`
		out := run(t, p.confined([]string{"--policy", "../wide.toml"}, "sh", "-c", script))
		if !strings.HasPrefix(out.stdout, "version = 1\n") || !strings.HasSuffix(out.stdout, "\ndenied\n") {
			t.Errorf("%s: %+v", u.Name, out)
		}
		for _, question := range [][]string{{"execute", "/etc/passwd"}, {"read", "../wide.toml"}} {
			out := run(t, p.command(append([]string{binary, "check", "--policy", "../wide.toml", "fs"}, question...)...))
			if out.code != 0 || !strings.HasPrefix(out.stdout, "allow") {
				t.Errorf("%s: %v: %+v", u.Name, question, out)
			}
		}
	}
}

// The presets work with a home as the workspace, in which they name folders to read.
func TestPresetsAtHome(t *testing.T) {
	for _, u := range users() {
		p := newFixture(t, u)
		for _, name := range []string{".pyenv/x", ".local/bin/x", ".nvm/x", "go/pkg/mod/x", ".gitconfig"} {
			p.write(t, filepath.Join("../home", name), "")
		}
		for _, preset := range []string{"python", "node", "go", "git", "readonly"} {
			out := run(t, p.confined([]string{"--policy", "preset:" + preset, "--workspace", p.home}, "sh", "-c", ": > ~/.pyenv/"+preset))
			_, err := os.Lstat(filepath.Join(p.home, ".pyenv", preset))
			if (out.code == 0) != (preset != "readonly") || (err == nil) != (out.code == 0) || out.code == 125 {
				t.Errorf("%s, %s: %+v, %v", u.Name, preset, out, err)
			}
		}
	}
}
