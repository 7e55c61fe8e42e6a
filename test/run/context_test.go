//go:build linux

package run

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// contextPolicy has everything that the description of files can express.
const contextPolicy = `version = 1
name = "context"
workspace = "workspace"
[access]
protect = true
secrets = true
default = { net = "deny", commands = "allow" }
[[access.fs]]
path = "/usr"
read = true
execute = true
[[access.fs]]
path = "."
read = true
execute = true
[[access.fs]]
path = "src"
read = true
write = true
[[access.fs]]
path = "src/deep"
[[access.fs]]
path = "src/deep/er"
create = true
[[access.fs]]
match = "**/*.log"
delete = true
[[access.fs]]
match = "src/**/keep*/x"
update = true
[[access.fs]]
match = "**/.husky"
read = true
write = true
unprotect = true
[[access.fs]]
path = "keys"
read = true
secret = true
[tools.me]
access.fs = [{ path = "tool", read = true, write = true }]
`

// docProgram returns the program in docs/context.md that has a file name.
func docProgram(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/context.md")
	must(t, err)
	for block := range strings.SplitSeq(string(text), "\n```") {
		lang, program, _ := strings.Cut(block, "\n")
		if lang != "" && strings.Contains(strings.SplitN(program, "\n", 2)[0], "file: "+name) {
			return program
		}
	}
	t.Fatalf("docs/context.md has no program %s", name)
	return ""
}

// somePaths are random questions about paths, of which about half exist.
func somePaths(seed uint64, n int) (questions []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	names := []string{
		"src", "deep", "er", "a.log", "b.log", "keep1", "keep", "x", ".husky", ".git", "hooks", "config", "keys", "id_rsa", "key.pem", ".env",
		".ssh", "tool", "out", "linked", "outside", "nowhere", "new", "data.txt", "é", "a b", ".",
	}
	capabilities := []string{"read", "create", "update", "delete", "execute"}
	for range n {
		var words []string
		for range 1 + r.IntN(5) {
			words = append(words, names[r.IntN(len(names))])
		}
		path := strings.Join(words, "/")
		if r.IntN(8) == 0 {
			path = "../" + path
		}
		if r.IntN(10) == 0 {
			path = []string{"/etc/passwd", "/etc/shadow", "/usr/bin/env", "/dev/null", "/etc/toolguard/x", "/", "/nonexistent/x", "/usr/share/x.pem"}[r.IntN(8)]
		}
		questions = append(questions, capabilities[r.IntN(len(capabilities))]+" "+path)
	}
	return questions
}

// tree has the folders, files and symlinks that the paths lead through.
func (p fixture) tree(t *testing.T) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(p.workspace, "src/deep/er"), 0o755))
	must(t, os.MkdirAll(filepath.Join(p.workspace, "src/keep1/x"), 0o755))
	must(t, os.MkdirAll(filepath.Join(p.workspace, ".git/hooks"), 0o755))
	for _, name := range []string{"src/a.log", "src/.env", "keys/id_rsa", "keys/key.pem", "key.pem", "data.txt", ".husky/x", "tool/x"} {
		p.write(t, name, name)
	}
	for link, to := range map[string]string{"linked": "src", "src/linked": "../keys", "outside": "/etc", "nowhere": "not/there", "src/deep/out": "../../tool"} {
		must(t, os.Symlink(to, filepath.Join(p.workspace, link)))
	}
	must(t, os.WriteFile(filepath.Join(filepath.Dir(p.workspace), "context.toml"), []byte(contextPolicy), 0o644))
	p.own(t)
}

// TestToolsCheckThemselves runs the programs of docs/context.md as a tool. Each decides about 1,000 paths as check does outside of the session.
func TestToolsCheckThemselves(t *testing.T) {
	if inGuest {
		t.Skip("needs the documents, Go and Python")
	}
	p := newFixture(t, users()[len(users())-1])
	p.tree(t)
	questions := somePaths(25, 1000)
	want := p.checkAll(t, questions)
	allowed := strings.Count(strings.Join(want, " "), "allow")
	if allowed < 100 || allowed > 900 {
		t.Fatalf("%d of the paths are allowed, which compares little", allowed)
	}
	for _, name := range []string{"access.py", "access.ts", "access.go"} {
		t.Run(name, func(t *testing.T) {
			argv := p.program(t, name)
			degraded := "protect,secrets,fs.3,fs.4,fs.5,fs.6,fs.7,fs.8,fs.9,fs.10" // what the policy says is compared, and not what is enforced
			cmd := p.confined([]string{"--policy", "../context.toml", "--tool", "me", "--backend", "landlock", "--allow-degraded", degraded}, argv...)
			cmd.Stdin = strings.NewReader(strings.Join(questions, "\n") + "\n")
			o := run(t, cmd)
			got := strings.Fields(o.stdout)
			if o.code != 0 || len(got) != len(want) {
				t.Fatalf("status %d, %d answers: %s", o.code, len(got), o.stderr)
			}
			wrong := 0
			for i, q := range questions {
				if got[i] != want[i] {
					if wrong++; wrong < 10 {
						t.Errorf("%s: %s, and check answers %s", q, got[i], want[i])
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d answers differ", wrong, len(want))
			}
		})
	}
}

// checkAll asks check, outside of a session.
func (p fixture) checkAll(t *testing.T, questions []string) (answers []string) {
	t.Helper()
	var lines strings.Builder
	for _, q := range questions {
		capability, path, _ := strings.Cut(q, " ")
		text, err := json.Marshal(map[string]string{"resource": "fs", "action": capability, "target": path})
		must(t, err)
		fmt.Fprintf(&lines, "%s\n", text)
	}
	cmd := p.command(binary, "check", "--policy", "../context.toml", "--tool", "me", "--batch")
	cmd.Stdin = strings.NewReader(lines.String())
	o := run(t, cmd)
	for s := bufio.NewScanner(strings.NewReader(o.stdout)); s.Scan(); {
		var a struct{ Decision, Error string }
		must(t, json.Unmarshal(s.Bytes(), &a))
		if a.Error != "" {
			t.Fatal(a.Error)
		}
		answers = append(answers, a.Decision)
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers: %s", len(answers), o.stderr)
	}
	return answers
}

// program makes a program of docs/context.md runnable, and returns its command line.
func (p fixture) program(t *testing.T, name string) []string {
	t.Helper()
	p.write(t, name, docProgram(t, name))
	switch name {
	case "access.py":
		needs(t, "python3")
		return []string{"python3", name}
	case "access.go":
		needs(t, "go")
		build := exec.Command("go", "build", "-o", filepath.Join(p.workspace, "access"), filepath.Join(p.workspace, name))
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p.own(t)
		return []string{"./access"}
	}
	needs(t, "node")
	for _, flags := range [][]string{nil, {"--experimental-strip-types"}} {
		p.write(t, "try.ts", "const x: number = 1;\n")
		if run(t, p.command(append(append([]string{"node"}, flags...), "try.ts")...)).code == 0 {
			return append(append([]string{"node"}, flags...), name)
		}
	}
	if esbuild, err := exec.LookPath("esbuild"); err == nil {
		out, err := exec.Command(esbuild, "--format=esm", filepath.Join(p.workspace, name)).Output()
		must(t, err)
		p.write(t, "access.mjs", string(out))
		return []string{"node", "access.mjs"}
	}
	t.Skip("needs node 22.6, which runs TypeScript, or esbuild")
	return nil
}
