//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where a policy is reached through a symlink, replacing that would choose the next start's policy: it can't be done, and
// where that can't be enforced nothing starts.
func TestWaysToPolicies(t *testing.T) {
	for _, u := range users() {
		p := newFixture(t, u)
		dir := filepath.Dir(p.workspace)
		rules := "[access]\ndefault = { net = \"deny\" }\n[[access.fs]]\npath = \"" + p.workspace + "\"\nread = true\nwrite = true\n"
		for name, text := range map[string]string{
			"real/p.toml": rules, "real/sub/x": "", "over/p.toml": "extends = [\"" + p.workspace + "/folder/p.toml\"]\n",
		} {
			p.write(t, filepath.Join("..", name), "version = 1\n"+text)
		}
		for name, to := range map[string]string{"workspace/folder": "../real", "workspace/sub": "../real/sub", "safe": "real"} {
			must(t, os.Symlink(to, filepath.Join(dir, name)))
		}
		p.own(t)
		replace := []string{"sh", "-c", `rm "$0"; ln -s ../evil "$0"; echo "$?"`}
		for name, x := range map[string]struct{ flags, link string }{
			"folder":  {"--policy folder/p.toml", "folder"},
			"extends": {"--policy ../over/p.toml", "folder"},
			"dots":    {"--policy ../real/p.toml --events sub/../events", "sub"},
		} {
			flags := append(strings.Fields(x.flags), "--backend", "landlock") // bpf lets no session write it
			out := run(t, p.confined(flags, append(replace, x.link)...))
			if want := "lets the command write " + p.workspace + "/" + x.link; out.code != 125 || !strings.Contains(out.stderr, want) {
				t.Errorf("%s, %s: %+v, want %s", u.Name, name, out, want)
			}
		}
		out := run(t, p.confined([]string{"--policy", "../safe/p.toml"}, append(replace, "../safe")...))
		if to, err := os.Readlink(filepath.Join(dir, "safe")); out.code != 0 || out.stdout == "0\n" || to != "real" {
			t.Errorf("%s: %+v, safe leads to %q, %v", u.Name, out, to, err)
		}
		if out := run(t, p.confined([]string{"--policy", "../safe/p.toml"}, append(replace, "folder")...)); out.stdout != "0\n" {
			t.Errorf("%s: control: %+v", u.Name, out)
		}
	}
}

// A lease on the policy, which the command may read, would keep the next start from reading it.
func TestNoLeases(t *testing.T) {
	for _, u := range users() {
		p := newFixture(t, u)
		p.write(t, "../p.toml", "version = 1\n[access]\ndefault = { net = \"deny\" }\n[[access.fs]]\npath = \""+
			filepath.Dir(p.workspace)+"\"\nread = true\nexecute = true\n")
		argv := []string{p.compile(t, "lease"), "../p.toml"}
		if bare := run(t, p.command(argv...)); bare.stdout != "leased\n" {
			t.Fatalf("%s: control: %+v", u.Name, bare)
		}
		out := run(t, p.confined([]string{"--policy", "../p.toml"}, argv...))
		if out.stdout != "refused\n" || u.ID == 0 && !strings.Contains(out.stderr, "always on: no leases") {
			t.Errorf("%s: %+v", u.Name, out)
		}
	}
}
