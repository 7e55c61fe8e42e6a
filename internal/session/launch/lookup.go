package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Lookup finds a program by name, as execvp(3) does.
func Lookup(name string, env []string) (string, error) {
	if name == "" {
		return "", &NotFound{}
	}
	var failed error = &NotFound{Name: name}
	for _, file := range fspath.Candidates(pathOf(env), name) {
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			failed = &NotExecutable{Path: file, Why: reasonText(err)}
		}
	}
	return "", failed
}

// pathOf returns the PATH in env, or the default of execvp.
func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return "/usr/bin:/bin"
}

// executable returns why file can't be executed.
func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return errors.New("it's a folder")
	case !info.Mode().IsRegular():
		return errors.New("it isn't a regular file")
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("no user may execute it: chmod +x %s", file)
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
