package fspath

import (
	"cmp"
	"strings"
)

// Candidates returns the files that a command's name may refer to, in the order in which execvp(3) tries them: the name itself
// if it contains a slash, else the file of that name in each folder of searchPath.
func Candidates(searchPath, name string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var files []string
	for dir := range strings.SplitSeq(searchPath, ":") {
		files = append(files, cmp.Or(dir, ".")+"/"+name)
	}
	return files
}

// FindProgram returns the canonical path of a program: an absolute path, or a name looked up in searchPath.
func FindProgram(sys FileSystem, searchPath, name string) (string, bool) {
	program, _, ok := NewResolver(sys).FindProgram(searchPath, name)
	return program, ok
}

// FindProgram returns the canonical path of a program, and the file by which it was found. It skips relative entries of searchPath,
// which depend on the current directory.
func (r *Resolver) FindProgram(searchPath, name string) (program, file string, ok bool) {
	for _, file := range Candidates(searchPath, name) {
		if !strings.HasPrefix(file, "/") {
			continue
		}
		if p, ok := r.executable(file); ok {
			return p, file, true
		}
	}
	return "", "", false
}

func (r *Resolver) executable(p string) (string, bool) {
	got, err := r.Resolve(p, true)
	return got.Path, err == nil && !got.Missing && got.Kind == Program && IsCanonical(got.Path)
}
