package binding

import (
	"os"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A program that executes a project's files can't be allowed once and for all: the session may write them.
func TestProjects(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"vite", "golangci-lint", "strace", "own"} {
		childtest.Must(t, os.WriteFile(dir+"/"+name, []byte("\x7fELF"), 0o700))
	}
	for command, why := range map[string]string{
		"vite":                        "vite executes files of the project",
		"cd / && golangci-lint run":   "golangci-lint executes files of the project",
		dir + "/vite build":           "vite executes files of the project",
		"strace own":                  "strace executes another program",
		"own && { own; strace own; }": "strace executes another program",
		"own":                         "",
		"own vite strace":             "",
	} {
		b, err := Of(Call{Script: command, Shell: "bash", Cwd: dir, Env: []string{"HOME=/nonexistent", "PATH=" + dir + ":/usr/bin:/bin"}})
		childtest.Must(t, err)
		if b.Unique != (why == "") || !strings.Contains(b.Why, why) {
			t.Errorf("%s: unique %v: %s", command, b.Unique, b.Why)
		}
	}
}
