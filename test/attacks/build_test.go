//go:build linux

package attacks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// built is where the binary and the programs are; it's filled once, on first use.
var built struct {
	dir                 string
	toolguard, programs func() error
}

// TestMain builds into a folder of its own, or into the one that TOOLGUARD_BUILT names: that one is kept, and what is in
// it already isn't built again, which serves machines without compilers.
func TestMain(m *testing.M) {
	built.toolguard = unlessThere("toolguard", buildToolguard)
	built.programs = unlessThere("programs", buildPrograms)
	if built.dir = os.Getenv("TOOLGUARD_BUILT"); built.dir != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("/tmp", "toolguard-attacks-bin-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func unlessThere(name string, build func() error) func() error {
	return sync.OnceValue(func() error {
		if _, err := os.Stat(filepath.Join(built.dir, name)); err == nil {
			return nil
		}
		return build()
	})
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
	if _, err := exec.LookPath("gcc"); err != nil && built.programs() != nil {
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

// buildPrograms compiles the C programs, as many at once as there are processors, and copies the scripts.
func buildPrograms() error {
	dir := filepath.Join(built.dir, "programs")
	sources, err := filepath.Glob("src/*.*")
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return err
	}
	errs := make([]error, len(sources))
	var group sync.WaitGroup
	turns := make(chan struct{}, runtime.NumCPU())
	for i, src := range sources {
		turns <- struct{}{}
		group.Go(func() {
			errs[i] = buildProgram(src, dir)
			<-turns
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func buildProgram(src, dir string) error {
	name, ext := filepath.Base(src), filepath.Ext(src)
	switch {
	case ext == ".sh" || ext == ".py":
		text, err := os.ReadFile(src)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, 0o755)
	case ext != ".c" || foreign(name):
		return nil
	}
	out := filepath.Join(dir, strings.TrimSuffix(name, ext))
	cmd := exec.Command("gcc", "-Wall", "-Wextra", "-Wno-unused-parameter", "-pipe", "-pthread", "-o", out, src, "-lrt")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", src, err, text)
	}
	return nil
}
