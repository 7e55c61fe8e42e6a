//go:build linux

package gate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kernelPolicy is one that Landlock enforces: all that the stubs and the programs of the corpus start is listed.
const kernelPolicy = `
version = 1
[access]
default = { commands = "deny", net = "deny" }
protect = false
secrets = false
fs = [
  { path = ".", read = true, write = true, execute = true },
  { path = "@BIN", read = true, execute = true },
]
[access.commands]
ls = {}
cat = {}
echo = {}
env = {}
bash = {}
sh = {}
find = {}
xargs = {}
grep = {}
timeout = {}
nice = {}
nohup = {}
head = {}
tail = {}
tee = {}
printf = {}
test = {}
true = {}
false = {}
sed = {}
wc = {}
sort = {}
git = {}
touch = {}
mkdir = {}
chmod = {}
cp = {}
cut = {}
tr = {}
diff = {}
date = {}
"./tool.sh" = {}
[gate]
shell = "SHELL"
`

// slow are commands that this test doesn't run: they wait, or ask for a terminal.
var slow = regexp.MustCompile(`sleep|read |exec |coproc|trap|watch|python3$`)

// TestKernel: the kernel denies the execution of no command that the gate has seen and allowed, and both deny one that isn't listed.
func TestKernel(t *testing.T) {
	s := newScene(t)
	for _, shell := range []string{"bash", "sh"} {
		t.Run(shell, func(t *testing.T) {
			dialect := map[string]string{"bash": "bash", "sh": "posix"}[shell]
			policy := strings.ReplaceAll(strings.Replace(kernelPolicy, "SHELL", dialect, 1), `"./tool.sh"`, `"@WS/tool.sh"`)
			s.write(t, "kernel", policy)
			denied := s.denials(t, shell, "ls; rm a.txt")
			if len(denied) == 0 {
				t.Skip("needs landlock, and records of its denials")
			}
			control := &section{policy: "kernel", rows: []row{command("ls; rm a.txt"), command("ls")}}
			if a := s.answers(t, control); a[0].Decision != "deny" || a[0].Reason != "command_not_listed" || a[1].Decision != "allow" {
				t.Fatalf("the gate: %+v, %+v", *a[0], *a[1])
			}
			sec := &section{policy: "kernel", rows: shellRows(t, s)}
			var may []string
			for i, a := range s.answers(t, sec) {
				if c := sec.rows[i].command; a.Decision == "allow" && !slow.MatchString(c) {
					may = append(may, c)
				}
			}
			t.Logf("%d commands run", len(may))
			if len(may) < 60 {
				t.Errorf("only %d commands run", len(may))
			}
			// The last one is denied, which shows that all ran.
			denied = s.denials(t, shell, s.script(t, append(may, "rm a.txt"), shell))
			others := slices.ContainsFunc(denied, func(line string) bool { return !strings.Contains(line, "/rm ") })
			if len(denied) > 0 && !others {
				return
			}
			t.Errorf("in one session, the last command alone should be denied: %q", denied)
			for _, c := range may { // which one it was
				for _, d := range s.denials(t, shell, c) {
					t.Errorf("the gate allows %q, and the kernel: %s", c, d)
				}
			}
		})
	}
}

// script is one that runs all commands, each in a shell of its own.
func (s *scene) script(t *testing.T, commands []string, shell string) string {
	t.Helper()
	dir := filepath.Join(s.dir("WS"), "commands", shell)
	must(t, os.MkdirAll(dir, 0o755))
	for i, c := range commands {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d", i)), []byte(c+"\n"), 0o644))
	}
	return fmt.Sprintf("for f in commands/%s/*; do %s $f </dev/null; done", shell, shell)
}

func command(text string) row {
	arguments, err := json.Marshal(map[string]string{"command": text})
	if err != nil {
		panic(err)
	}
	return row{tool: "Bash", command: text, arguments: arguments}
}

// shellRows are the shell calls of the corpus that may run, and those of every day.
func shellRows(t *testing.T, s *scene) (rows []row) {
	t.Helper()
	seen := map[string]bool{}
	for _, sec := range append(readCorpus(t, s).sections, *everyday(t, "")) {
		for _, r := range sec.rows {
			if r.command != "" && r.decision == "allow" && !seen[r.command] {
				seen[r.command] = true
				rows = append(rows, command(r.command))
			}
		}
	}
	return rows
}

// denials runs a command under the kernel's enforcement, and returns which executions it denied.
func (s *scene) denials(t *testing.T, shell, text string) (list []string) {
	t.Helper()
	events := filepath.Join(s.dir("POLICY"), "events")
	_ = os.Remove(events)
	policy := filepath.Join(s.dir("POLICY"), "kernel.toml")
	cmd := s.toolguard("exec", "--policy", policy, "--workspace", s.dir("WS"), "--backend", "landlock", "--daemon", "none", "--quiet",
		"--report", "never", "--allow-degraded", "gate.shell", "--format", "text", "--events", events, "--", shell, "-c", text)
	out := run(t, cmd, nil)
	if out.code == 125 {
		t.Fatalf("%s: %s", text, out.stderr)
	}
	lines, err := os.ReadFile(events)
	must(t, err)
	for line := range strings.Lines(string(lines)) {
		if strings.Contains(line, "denied fs execute") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}
