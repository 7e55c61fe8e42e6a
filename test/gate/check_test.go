//go:build linux

package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agreePolicy has rules of each form, for tools of each kind.
const agreePolicy = `
version = 1
[access]
fs = [
  { path = ".", read = true, write = true },
  { path = "src", read = true, execute = true },
  { path = "src/sub", read = true, write = true, execute = true },
  { path = "vendor", read = true },
  { path = "vendor/mod", delete = true },
  { path = ".env" },
  { path = "docs", create = true },
  { path = "@OUT/d", read = true, update = true },
  { match = "**/round" },
  { match = "**/*.sh", execute = true },
]
[tools]
t_read.kind = "read"
t_list.kind = "list"
t_create.kind = "create"
t_modify.kind = "modify"
t_delete.kind = "delete"
t_execute.kind = "execute"
`

// pathOf returns a path over the scene's folders, symlinks and ".." included.
func pathOf(r *rand.Rand, s *scene) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var parts []string
	for range 1 + r.IntN(5) {
		parts = append(parts, pick("a.txt", "src", "lib.go", "sub", "deep.txt", "in-dir", "in-link", "out-dir", "out-link", "abs-out", "abs-link",
			"two-steps", "round", "loop", "dangling", "up", "..", "..", "..", ".", "vendor", "mod", "file.txt", "run.sh", "tool.sh", ".env",
			"env-link", "vendor-link", ".git", "hooks", "config", "docs", "new", "d", "out", "ws", "ws-other", "home", ".ssh", "id_rsa"))
	}
	prefix := pick("", "", "", "", s.dir("WS")+"/", s.dir("WS")+"/", s.dir("OUT")+"/", s.dir("HOME")+"/", "/", "/etc/", "/usr/bin/", "/proc/self/", "./", "//")
	return prefix + strings.Join(parts, "/")
}

// TestAgreesWithCheck: the gate's decision about a path is that of check, under the same policy for the same capability.
func TestAgreesWithCheck(t *testing.T) {
	s := newScene(t)
	s.write(t, "agree", agreePolicy)
	const seed = 20261126
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := []string{"read", "list", "create", "modify", "delete", "execute"}
	var calls bytes.Buffer
	var paths, tools []string
	for i := range 5000 {
		paths = append(paths, pathOf(r, s))
		tools = append(tools, "t_"+kinds[r.IntN(len(kinds))])
		call, err := json.Marshal(map[string]any{"id": fmt.Sprint(i), "tool": tools[i], "arguments": map[string]any{"path": paths[i]}})
		must(t, err)
		calls.Write(append(call, '\n'))
	}
	out := run(t, s.gate("agree", "--batch"), calls.Bytes())
	answers := parseAnswers(t, out.stdout)
	if out.code != 0 || len(answers) != len(paths) {
		t.Fatalf("exit status %d, %d answers: %s", out.code, len(answers), out.stderr)
	}
	want := s.check(t, "agree", paths, tools, answers)
	counts := map[string]int{}
	for i, a := range answers {
		counts[a.Decision+" "+a.Capability]++
		counts[a.Decision+" "+a.Reason]++
		// A path that leads out by ".." is relative for check, and the gate asks about the absolute one.
		same := a.Reason == want[i].Reason || a.Reason == "outside_workspace" && want[i].Reason == "workspace_escape"
		if a.Decision != want[i].Decision || !same {
			t.Errorf("%s %s (%s): gate: %s %s, check: %s %s", tools[i], paths[i], a.Capability, a.Decision, a.Reason, want[i].Decision, want[i].Reason)
		}
	}
	t.Logf("seed %d: %v", seed, counts)
	for _, c := range []string{"read", "list", "create", "update", "delete", "execute"} {
		if counts["allow "+c] < 20 || counts["deny "+c] < 20 {
			t.Errorf("%s: %d allowed, %d denied", c, counts["allow "+c], counts["deny "+c])
		}
	}
	for _, reason := range []string{"rule_denies", "outside_workspace", "workspace_escape", "protected", "path_unresolved"} {
		if counts["deny "+reason] == 0 {
			t.Errorf("nothing was denied for %s", reason)
		}
	}
}

// verdict is what check answers.
type verdict struct{ Decision, Reason, Error string }

// check asks about the paths, each for the capability that its tool needs: a tool that creates needs update for what exists.
func (s *scene) check(t testing.TB, policy string, paths, tools []string, answers []*answer) (all []verdict) {
	t.Helper()
	var in bytes.Buffer
	for i, p := range paths {
		action := map[string]string{
			"t_read": "read", "t_list": "read", "t_create": "create", "t_modify": "update", "t_delete": "delete", "t_execute": "execute",
		}[tools[i]]
		if tools[i] == "t_create" {
			file := p // not filepath.Join, which removes ".." before symlinks are followed
			if !filepath.IsAbs(p) {
				file = s.dir("WS") + "/" + p
			}
			_, err := os.Stat(file)
			unknown := answers[i].Capability == "update" && answers[i].Decision == "deny" // whether it exists can't be found out
			if err == nil || unknown {
				action = "update"
			}
		}
		q, err := json.Marshal(map[string]any{"id": i, "resource": "fs", "action": action, "target": p})
		must(t, err)
		in.Write(append(q, '\n'))
	}
	out := run(t, s.toolguard("check", "--policy", filepath.Join(s.dir("POLICY"), policy+".toml"), "--workspace", s.dir("WS"), "--batch"), in.Bytes())
	for line := range bytes.Lines(out.stdout) {
		var v verdict
		must(t, json.Unmarshal(line, &v))
		all = append(all, v)
	}
	if len(all) != len(paths) {
		t.Fatalf("check gave %d answers, exit status %d: %s", len(all), out.code, out.stderr)
	}
	return all
}

// TestSymlinkSwapped: where a symlink leads is looked at for each call.
func TestSymlinkSwapped(t *testing.T) {
	s := newScene(t)
	s.write(t, "agree", agreePolicy)
	cmd := s.gate("agree", "--batch")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	d := json.NewDecoder(out)
	link := filepath.Join(s.dir("WS"), "swapped")
	for i, to := range []string{"a.txt", "../out/secret.txt", "a.txt", ".env"} {
		_ = os.Remove(link)
		must(t, os.Symlink(to, link))
		_, err := fmt.Fprintf(in, `{"id":"%d","tool":"t_read","arguments":{"path":"swapped"}}`+"\n", i)
		must(t, err)
		var a answer
		must(t, d.Decode(&a))
		if want := []string{"allow", "deny", "allow", "deny"}[i]; a.Decision != want {
			t.Errorf("with a link to %s: %s", to, a.Decision)
		}
	}
	must(t, in.Close())
	must(t, cmd.Wait())
}
