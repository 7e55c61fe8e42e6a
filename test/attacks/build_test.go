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

	"github.com/toolguard/toolguard/internal/childtest"
)

// built is where the binary and the programs are; it's filled once, on first use.
var built struct {
	dir                 string
	toolguard, programs func() error
}

// TestMain builds into a folder of its own, or into the one that TOOLGUARD_BUILT names: that one is kept, and what is in
// it already isn't built again, which serves machines without compilers.
func TestMain(m *testing.M) {
	built.toolguard = unlessThere("toolguard", func() error { return childtest.Build(built.dir, "toolguard") })
	built.programs = unlessThere("programs", buildPrograms)
	os.Exit(childtest.WithPrograms(func(dir string) int {
		built.dir = dir
		return m.Run()
	}))
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
