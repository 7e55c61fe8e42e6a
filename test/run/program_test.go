//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command is found as execvp(3) finds it, and the exit status shows why one wasn't started.
func TestPrograms(t *testing.T) {
	rows := []struct {
		name, path, program string
		code                int
		stdout, stderr      string
	}{
		{"first of two", "W/one:W/two", "tool", 0, "one\n", ""},
		{"not executable at first", "W/plain:W/two", "tool", 0, "two\n", ""},
		{"a folder at first", "W/folder:W/two", "tool", 0, "two\n", ""},
		{"only not executable", "W/plain:W/empty", "tool", 126, "", "W/plain/tool may not be executed: no user may execute it: chmod +x W/plain/tool"},
		{"nowhere", "W/empty:W/missing", "tool", 127, "", "tool: no such command"},
		{"beneath a file", "W/one/tool:W/two", "tool", 0, "two\n", ""},
		{"relative folder", "two", "tool", 0, "two\n", ""},
		{"the current folder", "", "here", 0, "here\n", ""},
		{"an empty entry", "W/empty::W/two", "here", 0, "here\n", ""},
		{"a path", "W/empty", "one/tool", 0, "one\n", ""},
		{"a path to nothing", "W/one", "two/nothing", 127, "", "two/nothing: no such command"},
		{"a path to a folder", "W/one", "./one", 126, "", "./one may not be executed: it's a folder"},
		{"no name", "W/one", "", 127, "", "the name of the command is empty"},
		{"interpreter missing", "W/one", "one/lost", 127, "", "(or its interpreter): no such command"},
	}
	for _, u := range users() {
		p := newFixture(t, u)
		for _, name := range []string{"one/tool", "two/tool", "here"} {
			p.write(t, name, "#!/bin/sh\necho "+filepath.Dir(strings.TrimPrefix("./"+name, "./"))+"\n")
		}
		p.write(t, "here", "#!/bin/sh\necho here\n")
		p.write(t, "plain/tool", "#!/bin/sh\n")
		p.write(t, "folder/tool/x", "")
		p.write(t, "empty/x", "")
		p.write(t, "one/lost", "#!/nowhere/sh\n")
		must(t, os.Chmod(filepath.Join(p.workspace, "plain/tool"), 0o644))
		for _, r := range rows {
			t.Run(u.Name+"/"+r.name, func(t *testing.T) {
				cmd := p.confined(policy, r.program)
				cmd.Env = append(cmd.Env, "PATH="+strings.ReplaceAll(r.path, "W", p.workspace))
				out := run(t, cmd)
				if want := strings.ReplaceAll(r.stderr, "W", p.workspace); out.code != r.code || out.stdout != r.stdout || !strings.Contains(out.stderr, want) {
					t.Errorf("%+v", out)
				}
			})
		}
	}
}

// A command's rule about its environment applies under every name that the program is started by.
func TestCommandEnvs(t *testing.T) {
	p := newFixture(t, users()[0])
	p.write(t, "bin/deep/env", "")
	file := filepath.Join(p.workspace, "bin/env")
	must(t, os.Symlink(find("env"), file))
	must(t, os.Symlink("bin/deep", filepath.Join(p.workspace, "link")))
	rules := filepath.Join(filepath.Dir(p.workspace), "policy.toml")
	text := "version = 1\nextends = [\"preset:git\"]\n[access]\ndefault = { fs = \"deny\" }\n[access.commands.env]\nenvs = [\"PATH\"]\n"
	must(t, os.WriteFile(rules, []byte(text), 0o644))
	for _, name := range []string{"env", find("env"), "bin/env", "./bin/../bin/env", "link/../env"} {
		cmd := p.confined([]string{"--policy", rules, "--allow-degraded", "commands.env"}, name)
		out := run(t, cmd)
		if out.code != 0 || !strings.Contains(out.stdout, "PATH=") || strings.Contains(out.stdout, "HOME=") {
			t.Errorf("%s: %+v", name, out)
		}
	}
	control := run(t, p.confined([]string{"--policy", "preset:git"}, "env"))
	if !strings.Contains(control.stdout, "HOME=") {
		t.Errorf("control: %+v", control)
	}
}
