package test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNotices checks that the package's copyright file has a licence of every module in its programs.
func TestNotices(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "./cmd/...")
	build.Dir = root
	build.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	notices := exec.Command("scripts/notices")
	notices.Dir = root
	text, err := notices.Output()
	must(t, err)
	want := map[string]bool{"libbpf": true}
	for _, program := range []string{"toolguard", "toolguardd", "toolguard-ship"} {
		info, err := buildinfo.ReadFile(filepath.Join(dir, program))
		must(t, err)
		want["Go "+info.GoVersion+": LICENSE"] = true
		for _, d := range info.Deps {
			want[d.Path+" "+d.Version+": LICENSE"] = true
		}
	}
	for part := range want {
		if !regexp.MustCompile(`(?mi)^={80}\n` + regexp.QuoteMeta(part) + `(\.txt)?\n\n(.*\n){10}`).Match(text) {
			t.Errorf("no %s", part)
		}
	}
	if len(want) < 10 {
		t.Errorf("only %d parts", len(want))
	}
}

// TestUnitsOfPackage checks that the package's removal stops all of its units and no others.
func TestUnitsOfPackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "packaging/deb/prerm"))
	must(t, err)
	var units []string
	for _, kind := range []string{"service", "socket"} {
		files, err := filepath.Glob(filepath.Join(root, "packaging/systemd/*."+kind))
		must(t, err)
		for _, file := range files {
			units = append(units, filepath.Base(file))
		}
	}
	m := regexp.MustCompile(`(?m)^units='(.*)'`).FindSubmatch(text)
	if m == nil {
		t.Fatal("prerm doesn't say which units there are")
	}
	listed := strings.Fields(string(m[1]))
	slices.Sort(listed)
	if slices.Sort(units); !slices.Equal(listed, units) || len(units) < 4 {
		t.Errorf("prerm has %q, and the package %q", listed, units)
	}
}
