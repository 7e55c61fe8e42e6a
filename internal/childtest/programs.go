package childtest

import (
	"fmt"
	"os"
	"os/exec"
)

// WithPrograms runs a package's tests with programs of cmd/, and returns the exit status. They are in a new folder, which every user can enter;
// on a machine without compilers, TOOLGUARD_BUILT names the folder.
func WithPrograms(run func(dir string) int, names ...string) int {
	if dir := os.Getenv("TOOLGUARD_BUILT"); dir != "" {
		return run(dir)
	}
	dir, err := os.MkdirTemp("", "programs-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil && len(names) > 0 {
		err = Build(dir, names...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run(dir)
}

// Build builds programs of cmd/ as they are built for users.
func Build(dir string, names ...string) error {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/")
	for _, name := range names {
		build.Args = append(build.Args, "github.com/toolguard/toolguard/cmd/"+name)
	}
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}
