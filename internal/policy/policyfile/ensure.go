package policyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// Ensure makes the missing folders that rules with ensure = true name, with mode 0700. It makes them beneath the home or the
// workspace alone, and never through a symlink that leads out of that. For a built-in rule it ignores failures: a command can do without.
func Ensure(src *policy.Source) error {
	for _, layer := range src.Layers {
		for _, r := range layer.FS {
			if !r.Ensure {
				continue
			}
			if err := makeFolder(src, r.Path); err != nil && !r.Optional {
				return &policy.Error{Position: r.Position, Msg: fmt.Sprintf("ensure: the folder %q can't be made: %v", r.Path, err)}
			}
		}
	}
	return nil
}

func makeFolder(src *policy.Source, path string) error {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(src.Home, rest)
	}
	path = absolute(path, src.Workspace)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	for _, base := range []string{filepath.Clean(src.Workspace), filepath.Clean(src.Home)} {
		if !contains(base, path) {
			continue
		}
		root, err := os.OpenRoot(base)
		if err != nil {
			return err
		}
		defer root.Close()
		rest, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		return root.MkdirAll(rest, 0o700)
	}
	return errors.New("it's neither beneath the home nor beneath the workspace")
}
