package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/version"
)

// TestVersion compares internal/version/VERSION with the other places that show the version.
func TestVersion(t *testing.T) {
	release := version.Release()
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-rc\.\d+)?$`).MatchString(release) {
		t.Fatalf("the version is %q", release)
	}
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(root, file))
		must(t, err)
		return string(text)
	}
	for file, pattern := range map[string]string{
		"CHANGELOG.md":   `(?m)^## (\S+), (?:\d{4}-\d\d-\d\d|unreleased)$`,
		"README.md":      `This is version (\S+): \[CHANGELOG\.md\]\(CHANGELOG\.md\)`,
		"docs/events.md": `"product": \{[^}]*"version": "([^"]+)"`,
	} {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(read(file)); m == nil || m[1] != release {
			t.Errorf("%s doesn't have the version %s: %q", file, release, m)
		}
	}
	// Both builds set this variable; the linker ignores a wrong name.
	variable := regexp.MustCompile(`-X (\S+)=\$\(?VERSION`)
	for _, file := range []string{"Makefile", "scripts/package"} {
		if m := variable.FindStringSubmatch(read(file)); m == nil || m[1] != module+"/internal/version.build" {
			t.Errorf("%s sets another variable: %q", file, m)
		}
	}
	for flags, want := range map[string]string{
		"": release + "+devel",
		"-X " + module + "/internal/version.build=" + release + "+1.c0ffee": release + "+1.c0ffee",
	} {
		program := filepath.Join(t.TempDir(), "toolguard")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w "+flags, "-o", program, "./cmd/toolguard")
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.Command(program, "version").Output(); err != nil || !strings.HasPrefix(string(out), "toolguard "+want+" (go") {
			t.Errorf("it's %s: %s, %v", want, out, err)
		}
	}
}

// TestBuildVersion checks that scripts/version names a build after its commit, except the release's own.
func TestBuildVersion(t *testing.T) {
	dir := t.TempDir()
	run := func(command string) string {
		t.Helper()
		cmd := exec.Command("bash", "-euc", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_COMMITTER_DATE=2026-11-21T10:00:00Z",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	original, err := filepath.Abs(filepath.Join(root, "scripts/version"))
	must(t, err)
	for _, step := range []struct{ command, want string }{
		{"mkdir -p scripts internal/version; cp " + original + " scripts; echo 1.2.3 >internal/version/VERSION", `1\.2\.3`},
		{"git init -q; git add .; git commit -qm one", `1\.2\.3\+20261121100000\.[0-9a-f]{12}`},
		{"git tag v1.2.2", `1\.2\.3\+20261121100000\.[0-9a-f]{12}`},
		{"git tag v1.2.3", `1\.2\.3`},
		{"echo 1.2.3 >>internal/version/VERSION; git commit -qam two; sed -i 1d internal/version/VERSION", `1\.2\.3\+20261121100000\.[0-9a-f]{12}\.dirty`},
		{"git commit -qam three", `1\.2\.3\+20261121100000\.[0-9a-f]{12}`},
	} {
		run(step.command)
		if got := run("scripts/version"); !regexp.MustCompile("^" + step.want + "$").MatchString(got) {
			t.Errorf("after %s: %s, not %s", step.command, got, step.want)
		}
	}
}
