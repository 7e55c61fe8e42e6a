package userfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// PolicyFor returns the path of the user's policy for a folder, whose path is canonical; "" without a home.
func (f Folders) PolicyFor(dir string) string {
	if f.Config == "" {
		return ""
	}
	return filepath.Join(f.Config, "policies", key(dir)+".toml")
}

// FindPolicy returns the user's policy for a folder or its nearest ancestor that has one, and that ancestor; "" if there is none.
// Files in these folders, which commands may write, don't matter. An error names an existing policy that can't be trusted.
func (f Folders) FindPolicy(dir string) (file, of string, err error) {
	if f.Config == "" {
		return "", "", nil
	}
	file, of, err = nearest(filepath.Join(f.Config, "policies"), dir, ".toml")
	if err != nil {
		return "", "", fmt.Errorf("the search for a policy of the user failed: %w; correct that, or name a policy: --policy FILE", err)
	}
	if file == "" {
		return "", "", nil
	}
	if err := checkFile(file); errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("the policy for %s isn't used: %s is a symlink that leads nowhere; remove it, or name a policy: --policy FILE", of, file)
	} else if err != nil {
		return "", "", fmt.Errorf("the policy for %s isn't used: %w; or name a policy: --policy FILE", of, err)
	}
	if real, err := filepath.EvalSymlinks(file); err != nil || strings.HasPrefix(real, strings.TrimSuffix(of, "/")+"/") {
		return "", "", fmt.Errorf("the policy for %s isn't used, because it is in that folder, where commands may write: to use it anyway, pass --policy %s", of, file)
	}
	return file, of, nil
}

// WritePolicy writes the user's policy for a folder, whose path is canonical, and returns its path. It replaces an existing one
// only with force.
func (f Folders) WritePolicy(dir string, text []byte, force bool) (file string, err error) {
	if file = f.PolicyFor(dir); file == "" {
		return "", errNoHome
	}
	if err := makeFolder(filepath.Dir(file)); err != nil {
		return "", err
	}
	if force {
		return file, replace(file, text)
	}
	temp, err := writeTemp(file, text)
	if err != nil {
		return "", err
	}
	err = os.Link(temp, file)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s exists: --force replaces it, --output FILE writes elsewhere", file)
	}
	return file, errors.Join(err, os.Remove(temp))
}
