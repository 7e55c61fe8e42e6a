//go:build linux

package attacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is where the binary and the programs are; it's filled once, by what needs it first.
var built struct {
	dir                 string
	toolguard, programs func() error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("/tmp", "toolguard-attacks-bin-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir = dir
	built.toolguard = sync.OnceValue(buildToolguard)
	built.programs = sync.OnceValue(buildPrograms)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// toolguard is the path of the real binary.
func toolguard(t *testing.T) string {
	t.Helper()
	must(t, built.toolguard())
	return filepath.Join(built.dir, "toolguard")
}

// programs is the folder with the compiled attacks and the scripts.
func programs(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	must(t, built.programs())
	return filepath.Join(built.dir, "programs")
}

func buildToolguard() error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", built.dir+"/toolguard", "../../cmd/toolguard")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build toolguard: %w\n%s", err, out)
	}
	return nil
}

func buildPrograms() error {
	dir := filepath.Join(built.dir, "programs")
	sources, err := filepath.Glob("src/*.*")
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return err
	}
	for _, src := range sources {
		switch name, ext := filepath.Base(src), filepath.Ext(src); {
		case ext == ".c" && foreign(name):
		case ext == ".c":
			out := filepath.Join(dir, strings.TrimSuffix(name, ext))
			cmd := exec.Command("gcc", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-pthread", "-o", out, src, "-lrt")
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("compile %s: %w\n%s", src, err, text)
			}
		case ext == ".sh" || ext == ".py":
			text, err := os.ReadFile(src)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}
