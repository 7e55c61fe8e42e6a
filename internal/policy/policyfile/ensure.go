package policyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// Ensure makes the folders that rules with ensure = true name and that aren't there, with mode 0700. It makes them beneath the home or the
// workspace alone, and never through a symlink that leads out of that. What a built-in rule names may fail: a command can do without.
func Ensure(src *policy.Source) error {
	for _, layer := range src.Layers {
		for _, r := range layer.FS {
			if !r.Ensure || r.Path == "" {
				continue
			}
			if err := makeFolder(src, r.Path); err != nil && !r.Optional {
				return &policy.Error{Place: r.Place, Msg: fmt.Sprintf("ensure: the folder %q can't be made: %v", r.Path, err)}
			}
		}
	}
	return nil
}

func makeFolder(src *policy.Source, path string) error {
	base, rest := src.Workspace, path
	switch home, beneath := strings.CutPrefix(path, "~/"); {
	case beneath:
		base, rest = src.Home, home
	case filepath.IsAbs(path) && src.Home != "" && holds(src.Home, path):
		base, rest = src.Home, strings.TrimPrefix(path, src.Home+"/")
	case filepath.IsAbs(path) && holds(src.Workspace, path):
		rest = strings.TrimPrefix(path, src.Workspace+"/")
	case filepath.IsAbs(path):
		return errors.New("it's neither beneath the home nor beneath the workspace")
	}
	if _, err := os.Stat(filepath.Join(base, rest)); err == nil {
		return nil
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.MkdirAll(filepath.Clean(rest), 0o700)
}
