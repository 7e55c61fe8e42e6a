//go:build linux

package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scene has a workspace, and next to it a home, a folder that no policy grants, programs and policies.
type scene struct{ root string }

func (s *scene) dir(name string) string {
	return filepath.Join(s.root, map[string]string{"WS": "ws", "OUT": "out", "HOME": "home", "BIN": "bin", "POLICY": "policies"}[name])
}

// expand replaces the names of the folders in a text.
func (s *scene) expand(text string) string {
	return strings.NewReplacer("@WS", s.dir("WS"), "@OUT", s.dir("OUT"), "@HOME", s.dir("HOME"), "@BIN", s.dir("BIN"), "@POLICY", s.dir("POLICY")).Replace(text)
}

// stubs are programs that a machine may lack. They succeed.
var stubs = strings.Fields(`ag busybox bun bunx cargo cmake csh curl deno docker doas dotnet emacs expect fd firejail flake8 gawk gdb gh git go gofmt
	golangci-lint gradle helm ionice jq kubectl ksh lua make mvn mypy node npm npx parallel perl php pip pip3 pnpm poetry prettier pwsh pytest
	python python3 rg rsync ruby ruff rustc scp screen sqlite3 ssh strace su sudo systemd-run tar terraform tmux tree tsc unzip uv uvx vi vim
	watch wget xxd yarn zip zsh`)

// newScene makes the folders. Neither the workspace nor anything around it is a symlink.
func newScene(t testing.TB) *scene {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	s := &scene{root}
	for name, text := range map[string]string{
		"ws/main.go": "package main\n\nfunc main() {}\n", "ws/go.mod": "module example.com/x\n\ngo 1.21\n", "ws/a.txt": "alpha\nbeta\n",
		"ws/two words.txt": "x\n", "ws/100%.txt": "x\n", "ws/src/lib.go": "package src\n", "ws/src/sub/deep.txt": "deep\n",
		"ws/docs/readme.md": "# x\n", "ws/data.json": "{}\n", "ws/package.json": "{}\n", "ws/Makefile": "all:\n", "ws/.env": "TOKEN=1\n",
		"ws/.git/HEAD": "ref: refs/heads/main\n", "ws/.git/config": "", "ws/.git/hooks/sample": "", "ws/vendor/mod/file.txt": "v\n",
		"ws/vendor/mod/run.sh": "#!/bin/sh\n", "ws/tool.sh": "#!/bin/sh\n", "ws/x.py": "print(1)\n", "ws/x.js": "\n", "ws/list": "a.txt\n",
		"ws/sub/Makefile": "all:\n", "ws/.venv/bin/activate": "", "ws/.venv/bin/pip": "#!/bin/sh\n",
		"ws-other/x": "x\n", "out/secret.txt": "secret\n", "out/x.sh": "#!/bin/sh\n", "out/d/deep.txt": "x\n",
		"home/.ssh/id_rsa": "key\n", "home/notes.txt": "notes\n", "home/.bashrc": "", "policies/keep": "",
	} {
		file := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		must(t, os.WriteFile(file, []byte(text), mode))
	}
	for name, to := range map[string]string{
		"in-link": "a.txt", "in-dir": "src", "out-link": "../out/secret.txt", "out-dir": "../out", "loop": "loop", "dangling": "../out/nothing",
		"vendor-link": "vendor", "env-link": ".env", "abs-link": s.dir("WS") + "/a.txt", "abs-out": s.dir("OUT"), "two-steps": "out-dir/secret.txt",
		"round": "../ws/a.txt", "src/up": "..",
	} {
		must(t, os.Symlink(to, filepath.Join(root, "ws", name)))
	}
	must(t, os.Mkdir(s.dir("BIN"), 0o755))
	for _, name := range stubs {
		must(t, os.WriteFile(filepath.Join(s.dir("BIN"), name), []byte("#!/bin/sh\nexit 0\n"), 0o755))
	}
	return s
}

// write adds a policy.
func (s *scene) write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.dir("POLICY"), name+".toml"), []byte(s.expand(text)), 0o644))
}
