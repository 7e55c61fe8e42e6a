package sandboxexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy"
)

// Program is the path of sandbox-exec.
const Program = "/usr/bin/sandbox-exec"

// MaxInline is the size of the longest profile that is an argument.
const MaxInline = 256 << 10

// Args returns the arguments of sandbox-exec, from argument 0 on, for a command under a profile. file has the profile's text; "": it's an argument.
func Args(program string, p *darwin.Profile, file string, command ...string) ([]string, error) {
	args := []string{program}
	if file != "" {
		args = append(args, "-f", file)
	} else {
		args = append(args, "-p", p.Text)
	}
	for _, d := range p.Params {
		if d.Name == "" || strings.ContainsAny(d.Name, "=\x00") || strings.Contains(d.Value, "\x00") {
			return nil, fmt.Errorf("the profile has the parameter %q, which sandbox-exec can't have", d.Name)
		}
		args = append(args, "-D"+d.Name+"="+d.Value)
	}
	// sandbox-exec parses its options by getopt(3), which ends at "--".
	return append(append(args, "--"), command...), nil
}

// WriteLong writes a profile that is too long for an argument into a file that the session can't change, in a new folder beneath the first suitable
// one of folders, which are canonical. file is "" if the profile isn't too long. remove removes the folder.
func WriteLong(p *darwin.Profile, c *policy.Compiled, folders []string) (file string, remove func() error, err error) {
	if len(p.Text) <= MaxInline {
		return "", func() error { return nil }, nil
	}
	const changes = policy.Create | policy.Update | policy.Delete
	err = errors.New("the policy lets the command write each of them")
	for _, folder := range folders {
		if folder == "" || mayChange(c, folder, changes) {
			continue
		}
		var dir string
		if dir, err = os.MkdirTemp(folder, "toolguard-profile-"); err != nil { // 0700
			continue
		}
		file = filepath.Join(dir, "profile.sb")
		if mayChange(c, file, changes) || mayChange(c, dir, changes) {
			_ = os.Remove(dir)
			err = fmt.Errorf("the policy lets the command write %s", folder)
			continue
		}
		if err := os.WriteFile(file, []byte(p.Text), 0o600); err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		return file, func() error { return os.RemoveAll(dir) }, nil
	}
	return "", nil, fmt.Errorf("the profile has %d KiB and needs a file that the command can't write, which can't be made in %s: %w; "+
		"take create, update and delete on one of these folders away", len(p.Text)>>10, strings.Join(folders, ", "), err)
}

// mayChange reports whether the policy allows any of the changes to a path.
func mayChange(c *policy.Compiled, path string, changes policy.Caps) bool {
	return slices.ContainsFunc([]policy.Caps{policy.Create, policy.Update, policy.Delete}, func(one policy.Caps) bool {
		return changes&one != 0 && c.CheckFS(path, one).Allow
	})
}
