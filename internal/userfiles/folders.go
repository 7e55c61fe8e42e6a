// Package userfiles stores a user's own files in his home: the policies of workspaces, and the denials of the last run in each.
//
// A policy applies only if nobody but the user can have written it, because commands under it start from its grants. The command
// chose the names in denials: treat them only as questions, and ask the policy again.
package userfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Folders are toolguard's folders of one user. Both are "" if the user has no home.
type Folders struct {
	Config string // policies; $XDG_CONFIG_HOME/toolguard or ~/.config/toolguard
	State  string // denials; $XDG_STATE_HOME/toolguard or ~/.local/state/toolguard
}

// Of returns the folders for a home and an environment. According to the XDG Base Directory Specification, a variable that isn't an
// absolute path is ignored.
func Of(home string, getenv func(string) string) Folders {
	in := func(variable, otherwise string) string {
		base := getenv(variable)
		switch {
		case filepath.IsAbs(base):
		case home == "":
			return ""
		default:
			base = filepath.Join(home, otherwise)
		}
		return filepath.Join(base, "toolguard")
	}
	return Folders{in("XDG_CONFIG_HOME", ".config"), in("XDG_STATE_HOME", ".local/state")}
}

// All returns the folders that aren't "".
func (f Folders) All() (list []string) {
	for _, dir := range []string{f.Config, f.State} {
		if dir != "" {
			list = append(list, dir)
		}
	}
	return list
}

var errNoHome = errors.New("HOME isn't an absolute path, so there is no folder for the user's files")

// key returns the file name for a folder without its extension: readable, and unique for each canonical path.
func key(dir string) string {
	const longest = 40
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, filepath.Base(dir))
	sum := sha256.Sum256([]byte(dir))
	return strings.TrimLeft(name[:min(len(name), longest)], ".") + "-" + hex.EncodeToString(sum[:8])
}

// nearest returns the file in folder for dir or its nearest ancestor that has one, and that ancestor; "" if there is none.
func nearest(folder, dir, ending string) (file, of string, err error) {
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", "", nil // the caller reports it
	}
	for ; ; at = filepath.Dir(at) {
		file := filepath.Join(folder, key(at)+ending)
		switch _, err := os.Lstat(file); {
		case err == nil:
			return file, at, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		case at == filepath.Dir(at):
			return "", "", nil
		}
	}
}

// checkFile checks that only the user can have written a file two folders below that of the configuration or the state.
func checkFile(file string) error {
	return checkOwners(file, filepath.Dir(file), filepath.Dir(filepath.Dir(file)))
}

// checkOwners checks that only the user can write the targets of the paths.
func checkOwners(paths ...string) error {
	if err := checkSymlinkOwners(paths[0]); err != nil {
		return err
	}
	for _, path := range paths {
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: path, Err: err}
		}
		if err := checkOwner(path, &st); err != nil {
			return err
		}
	}
	return nil
}

// checkSymlinkOwners checks that no symlink on a path belongs to another user, except root: under sudo, root may have the home of a
// user who could redirect it.
func checkSymlinkOwners(path string) error {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFLNK && st.Uid != 0 {
			if err := checkOwner(path, &syscall.Stat_t{Uid: st.Uid}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOwner checks that only the user can write the file of st.
func checkOwner(path string, st *syscall.Stat_t) error {
	switch user := os.Geteuid(); {
	case int(st.Uid) != user:
		return fmt.Errorf("%s is owned by user %d, and toolguard runs as user %d, who must own it (under sudo, HOME must be root's)", path, st.Uid, user)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s is writable by others than its owner (mode %04o): chmod go-w %s", path, st.Mode&0o777, path)
	}
	return nil
}

// makeFolder creates a folder of the user, and its missing ancestors. It creates nothing in another user's folder: root with the
// HOME of its caller would leave files that the caller can't change.
func makeFolder(dir string) error {
	if dir == "" {
		return errNoHome
	}
	if err := checkSymlinkOwners(dir); err != nil {
		return err
	}
	at := dir
	for {
		var st syscall.Stat_t
		err := syscall.Stat(at, &st)
		if err == nil {
			if int(st.Uid) != os.Geteuid() {
				return checkOwner(at, &st)
			}
			break
		}
		if !errors.Is(err, syscall.ENOENT) || at == filepath.Dir(at) {
			return &fs.PathError{Op: "stat", Path: at, Err: err}
		}
		at = filepath.Dir(at)
	}
	return os.MkdirAll(dir, 0o700)
}

// writeTemp writes a file next to name, readable for the user only.
func writeTemp(name string, text []byte) (temp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// replace writes a file atomically.
func replace(name string, text []byte) error {
	temp, err := writeTemp(name, text)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, name); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}
