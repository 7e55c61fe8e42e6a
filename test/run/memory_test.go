//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program may make a memory file if that adds no capability: if the session may execute files that it writes, or if only the bpf backend
// has to decide about executing it. Elsewhere the denial names what allows it.
func TestMemoryFiles(t *testing.T) {
	needs(t, "python3")
	const (
		memory = "import os; f = os.memfd_create('x'); os.write(f, b'data'); print('made')"
		sealed = "import os; os.memfd_create('x', 8); print('made')" // MFD_NOEXEC_SEAL
		open   = "\n[[access.fs]]\npath = \".\"\nread = true\nwrite = true\nexecute = true\n"
	)
	if text, _ := os.ReadFile("/proc/sys/vm/memfd_noexec"); len(text) > 0 && text[0] != '0' {
		t.Skip("needs vm.memfd_noexec = 0")
	}
	eachUser(t, func(t *testing.T, p fixture) {
		newer := run(t, p.command("python3", "-Bc", sealed)).code == 0 // Linux 6.3
		for _, row := range []struct{ name, policy, code, denied string }{
			{"python", `extends = ["preset:python"]`, memory, ""},
			{"node", `extends = ["preset:node"]`, memory, ""},
			{"git", `extends = ["preset:git"]`, memory, ""},
			{"readonly", `extends = ["preset:readonly"]`, memory, "grant `execute` on a folder"},
			{"readonly, sealed", `extends = ["preset:readonly"]`, sealed, ""},
			{"readonly, but", `extends = ["preset:readonly"]` + open, memory, ""},
			{"commands", "[access.commands.python3]\n[access.commands.\"/usr/bin/python3\"]" + open, memory, "commands are restricted"},
		} {
			t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
				if row.code == sealed && !newer {
					t.Skip("needs Linux 6.3")
				}
				file, events := filepath.Join(p.home, "policy.toml"), filepath.Join(p.home, "events")
				p.write(t, "../home/policy.toml", "version = 1\n"+row.policy+"\n")
				if bare := run(t, p.command("python3", "-Bc", row.code)); bare.stdout != "made\n" {
					t.Fatalf("bare: %+v", bare)
				}
				got := run(t, p.confined([]string{"--backend", "landlock", "--policy", file, "--events", events}, "python3", "-Bc", row.code))
				if made := got.stdout == "made\n"; made != (row.denied == "") || !made && !strings.Contains(got.stderr, "PermissionError") {
					t.Errorf("%+v", got)
				}
				reported, err := os.ReadFile(events)
				must(t, err)
				if p.user.ID == 0 && row.denied != "" && !strings.Contains(string(reported), row.denied) {
					t.Errorf("events: %s", reported)
				}
			})
		}
	})
}
