package policyfile

import (
	"path/filepath"
	"slices"
	"strings"
)

// markers are files that only the top folder of a project has.
var markers = []string{".git", "go.mod", "pyproject.toml", "package.json", "Cargo.toml", ".toolguard"}

// findWorkspace returns the nearest folder at or above dir that has a marker, or dir. A command that may write in it may also remove
// its markers, so that the next start looks further up: never as far as a home, with all its secrets, or a folder
// around it, unless dir is that folder itself, which Compile rejects (policy.Source.NeverHome).
func findWorkspace(dir string, homes []string, files Files) string {
	for at := dir; at == dir || !slices.ContainsFunc(homes, func(home string) bool { return contains(at, home) }); at = filepath.Dir(at) {
		for _, m := range markers {
			if files.Exists(filepath.Join(at, m)) {
				return at
			}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return dir
}

// contains reports whether a path is dir or beneath it; the top folder contains everything.
func contains(dir, path string) bool {
	return dir == "/" || strings.HasPrefix(filepath.Clean(path)+"/", dir+"/")
}

// absolute resolves a path relative to dir.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
