// Package userfiles keeps what is a user's own in his home: the policies of his workspaces, and what the last run in each was denied.
//
// A policy counts only where nobody but the user can have written it, since commands that run under it start from what it says. Of what
// was denied the command chose the names: whoever reads it takes it for no more than a question, and asks the policy again.
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

// Folders are toolguard's own folders of one user; both are "" where the user has no home.
type Folders struct {
	Config string // policies; $XDG_CONFIG_HOME/toolguard or ~/.config/toolguard
	State  string // what was denied; $XDG_STATE_HOME/toolguard or ~/.local/state/toolguard
}

// Of returns the folders of the user whose home and environment these are. As the XDG Base Directory Specification has it, a variable that
// isn't an absolute path is ignored.
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

// All returns the folders that there are names for.
func (f Folders) All() (list []string) {
	for _, dir := range []string{f.Config, f.State} {
		if dir != "" {
			list = append(list, dir)
		}
	}
	return list
}

var errNoHome = errors.New("HOME is no absolute path, so there is no folder for what is the user's own")

// key is the file name for a folder, without its ending: readable, and different for each canonical path.
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

// nearest returns the file of dir, or of the nearest folder above it that has one in folder, and the folder that it's of; "" for none.
func nearest(folder, dir, ending string) (file, of string, err error) {
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", "", nil // whoever goes on says what is wrong with it
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

// checkFile tests whether only the user can have written a file two folders below that of the configuration, or of the state.
func checkFile(file string) error {
	return checkOwners(file, filepath.Dir(file), filepath.Dir(filepath.Dir(file)))
}

// checkOwners tests whether all of these are the user's alone to write, where their names lead.
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

// checkSymlinkOwners tests whether no symlink on the way to a path is another user's, but for root's: root may have been left the home of somebody who could
// lead it elsewhere.
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

// checkOwner tests whether what st describes is the user's alone to write.
func checkOwner(path string, st *syscall.Stat_t) error {
	switch user := os.Geteuid(); {
	case int(st.Uid) != user:
		return fmt.Errorf("%s is owned by user %d, and toolguard runs as user %d, whose own it must be (under sudo, HOME must be root's)", path, st.Uid, user)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s is writable by others than its owner (mode %04o): chmod go-w %s", path, st.Mode&0o777, path)
	}
	return nil
}

// makeFolder makes a folder of the user's own, and those above that are missing. Nothing is made in what is another user's: a root that
// kept its caller's HOME would leave files that the caller can't change.
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

// writeTemp writes a file beside name, for the user alone, with what is to be in it.
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

// replace writes a file in one step: no reader ever finds a part of it.
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
