package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lookup finds the program that name stands for, the way execvp(3) does: through PATH, unless name has a slash.
func lookup(name string, env []string) (string, error) {
	if name == "" {
		return "", &NotFound{Name: `""`}
	}
	if strings.Contains(name, "/") {
		if err := executable(name); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return "", &NotFound{Name: name}
		} else if err != nil {
			return "", &NotExecutable{Path: name, Why: reasonText(err)}
		}
		return name, nil
	}
	var refused error
	for _, dir := range filepath.SplitList(pathOf(env)) {
		if dir == "" {
			dir = "."
		}
		file := filepath.Join(dir, name)
		if !strings.Contains(file, "/") {
			file = "./" + file
		}
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			refused = &NotExecutable{Path: file, Why: reasonText(err)}
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &NotFound{Name: name}
}

// pathOf is the PATH in env, or where execvp looks without one.
func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return "/usr/bin:/bin"
}

// executable tells why file can't be executed, leaving the last word to the kernel.
func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "exec", Path: file, Err: syscall.EACCES}
	}
	return accessible(file)
}

func reasonText(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}
