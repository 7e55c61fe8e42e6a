package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workload is an everyday command in a workspace of its own.
type workload struct {
	name, dir string
	runs      int
	setup     string   // a script that makes the workspace, bare
	undo      []string // what is removed before each run
	argv      []string
}

// workloads are all that the comparison measures. The first one is the start, which the others contain.
func workloads() []workload {
	const module = `printf 'module x\n\ngo 1.19\n' >go.mod; printf 'package main\n\nfunc main() { println("built") }\n' >main.go`
	build := []string{"go", "build", "-o", "x", "."}
	return []workload{
		{"start `true`", "start", 100, "", nil, []string{"true"}},
		{"open, read and close 10,000 files", "open", 5, `cp ../bench .; mkdir d; for i in {1..10000}; do echo $i >d/$i; done`, nil, []string{"./bench", "-open"}},
		{"`git status`, 20,000 files", "git", 5, `for d in {1..200}; do mkdir $d; for f in {1..100}; do echo $f >$d/$f; done; done
			git init -q .; git add .; git -c user.name=x -c user.email=x@example.com commit -qm one`, nil, []string{"git", "status"}},
		{"`go build`, empty cache", "cold", 3, module, []string{"cache", "x"}, build},
		{"`go build`, filled cache", "warm", 5, module + "; go build", []string{"x"}, build},
		{"`npm ci`", "npm", 5, `mkdir dep; echo '{"name":"x","version":"1.0.0"}' >package.json
			echo '{"name":"dep","version":"1.0.0","bin":{"dep":"cli.js"}}' >dep/package.json; echo '#!/usr/bin/env node' >dep/cli.js
			npm pack --silent ./dep; npm install --silent --offline ./dep-1.0.0.tgz`, []string{"node_modules"}, []string{"npm", "ci", "--silent", "--offline"}},
	}
}

// openAll opens, reads and closes each file of the current folder's "d".
func openAll() error {
	return filepath.WalkDir("d", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
}

// copySelf copies this program.
func copySelf(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}

// lastLine is the last line of a text, for a cell of a table.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.ReplaceAll(strings.TrimSpace(lines[len(lines)-1]), "|", `\|`)
}
