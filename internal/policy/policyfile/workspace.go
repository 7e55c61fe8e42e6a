package policyfile

import "path/filepath"

// markers are what the top folder of a project holds.
var markers = []string{".git", "go.mod", "pyproject.toml", "package.json", "Cargo.toml", ".toolguard"}

// findWorkspace is the nearest folder at or above dir that holds a marker, or dir.
func findWorkspace(dir string, files Files) string {
	for at := dir; ; at = filepath.Dir(at) {
		for _, m := range markers {
			if files.Exists(filepath.Join(at, m)) {
				return at
			}
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// absolute resolves a path as a person in dir means it.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
