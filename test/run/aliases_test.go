//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inNamespace is argv for a mount namespace of its own, in which one folder is also mounted on another.
func inNamespace(from, at string, argv ...string) []string {
	const script = `mount --bind "$1" "$2" && shift 2 && exec "$@"`
	return append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", from, at}, argv...)
}

// A file that a rule denies is denied by its aliases, too. Both paths have a grant: without the rule, the same access succeeds.
func TestAliases(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	p := newFixture(t, user{Name: "root"})
	data, mnt := filepath.Join(p.home, "data"), filepath.Join(p.workspace, "mnt")
	p.write(t, "../home/data/f", "before")
	p.write(t, "mnt/under", "")
	p.write(t, "g", "before")
	must(t, os.Link(filepath.Join(p.workspace, "g"), filepath.Join(p.home, "g")))
	const grants = "version = 1\n[access]\ndefault = { fs = \"deny\" }\nprotect = false\n[[access.fs]]\npath = \".\"\nread = true\nwrite = true\n"
	for _, row := range []struct {
		name, rule, target, also string
		file                     string // the target, seen from outside
		refused                  bool   // by landlock, which can't enforce it
	}{
		{"bind mount", data, filepath.Join(mnt, "f"), filepath.Join(data, "f"), filepath.Join(data, "f"), true},
		{"hard link", filepath.Join(p.home, "g"), filepath.Join(p.workspace, "g"), filepath.Join(p.home, "g"), filepath.Join(p.home, "g"), true},
		{"neither", filepath.Join(p.home, ".cache"), filepath.Join(mnt, "f"), "", filepath.Join(data, "f"), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			policy := filepath.Join(p.home, "policy.toml")
			text := grants + "[[access.fs]]\npath = \"" + row.rule + "\"\nread = true\n"
			must(t, os.WriteFile(policy, []byte(text), 0o600))
			ask := func(argv ...string) outcome {
				return run(t, p.command(inNamespace(data, mnt, append([]string{binary}, argv...)...)...))
			}
			for what, allowed := range map[string]bool{"read": true, "update": !row.refused} {
				got := ask("check", "--policy", policy, "fs", what, row.target)
				if (got.code == 0) != allowed || !allowed && !strings.Contains(got.stdout, row.also) {
					t.Errorf("%s: %+v", what, got)
				}
			}
			if got := ask("explain", "--policy", policy, "fs", "update", row.target); row.refused && !strings.Contains(got.stdout, "as it's also "+row.also) {
				t.Errorf("%+v", got)
			}
			write := func(flags ...string) outcome {
				argv := append([]string{"exec", "--backend", "landlock", "--policy", policy}, flags...)
				return ask(append(argv, "--", "sh", "-c", `echo after > "$1"`, "sh", row.target)...)
			}
			got, changed := write(), func() bool {
				b, err := os.ReadFile(row.file)
				must(t, err)
				return string(b) != "before"
			}
			if row.refused && (got.code != 125 || !strings.Contains(got.stderr, "fs.2") || !strings.Contains(got.stderr, policy+":9") || changed()) {
				t.Errorf("%+v, changed: %v", got, changed())
			}
			if !row.refused && (got.code != 0 || !changed()) {
				t.Errorf("%+v, changed: %v", got, changed())
			}
			if row.refused { // the control: the rule is all that stands between
				if got := write("--allow-degraded=fs.2"); got.code != 0 || !changed() {
					t.Errorf("%+v, changed: %v", got, changed())
				}
				must(t, os.WriteFile(row.file, []byte("before"), 0o644))
			}
		})
	}
}

// A hard link to a file beneath a folder that a rule names is another file for it, and lint finds it: a stated gap.
func TestLinksFromElsewhere(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		p.write(t, "../home/keys/a", "before")
		p.write(t, "../home/policy.toml", "version = 1\n[access]\ndefault = { fs = \"deny\" }\nprotect = false\n"+
			"[[access.fs]]\npath = \".\"\nread = true\nwrite = true\n[[access.fs]]\npath = \""+p.home+"/keys\"\nread = true\n")
		key, link, policy := p.home+"/keys/a", p.workspace+"/b", p.home+"/policy.toml"
		must(t, os.Link(key, link))
		got := run(t, p.command(binary, "policy", "lint", "--scan", policy))
		if want := "fs.2: " + key + " is also " + link; !strings.Contains(got.stdout, want) {
			t.Errorf("%+v, want %s", got, want)
		}
		write := func(name string) bool {
			run(t, p.confined([]string{"--policy", policy}, "sh", "-c", `echo after > "$1"`, "sh", name))
			b, err := os.ReadFile(key)
			must(t, err)
			return string(b) != "before"
		}
		if write(key) {
			t.Error("by its own name it's written")
		}
		if !write(link) {
			t.Error("it isn't written by its other name: no gap any more")
		}
	})
}
