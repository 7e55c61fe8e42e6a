package policyload

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/userfiles"
)

// Home returns the user's home folder, or "" where there's none.
func Home() string {
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return h
	}
	return ""
}

// homes returns the home and, under sudo, that of the calling user, whose projects are the workspaces; "/" where none is known.
func homes() []string {
	list := []string{cmp.Or(Home(), "/")}
	if id := os.Getenv("SUDO_UID"); id != "" && os.Geteuid() == 0 {
		if u, err := user.LookupId(id); err == nil && filepath.IsAbs(u.HomeDir) {
			list = append(list, u.HomeDir)
		}
	}
	return list
}

// ContainsHome reports whether a home is in a folder, or is it.
func ContainsHome(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	return err == nil && slices.ContainsFunc(homes(), func(home string) bool {
		home, gone := filepath.EvalSymlinks(home)
		return dir == "/" || gone == nil && strings.HasPrefix(home+"/", dir+"/")
	})
}

// WorkspaceFolder is the canonical path of a folder that may be a workspace.
func WorkspaceFolder(name string) (string, error) {
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("find the folder: %w", err)
	}
	if info, err := os.Stat(dir); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s isn't a folder", dir)
	}
	if ContainsHome(dir) {
		return "", fmt.Errorf("%s is the home, or contains it, and no workspace: a command could read and write everything in it; "+
			"name a project's folder: toolguard policy init DIR", dir)
	}
	return filepath.EvalSymlinks(dir)
}

// OwnFolders returns this user's folders.
func OwnFolders() userfiles.Folders { return userfiles.Of(Home(), os.Getenv) }

// defaultFolders returns the folders of a user with only the home known.
func defaultFolders(home string) []string {
	return userfiles.Of(home, func(string) string { return "" }).All()
}

// searchPath is the list of folders for programs: PATH, or where execvp looks without one.
func searchPath() string {
	if p, ok := os.LookupEnv("PATH"); ok {
		return p
	}
	return "/usr/bin:/bin"
}
