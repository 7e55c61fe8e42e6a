package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/mounts"
)

// Path is where distributions install bubblewrap. PATH isn't searched: the session may write there.
const Path = "/usr/bin/bwrap"

var paths = []string{Path, "/usr/local/bin/bwrap"}

// ErrMissing is returned where bubblewrap isn't installed.
var ErrMissing = errors.New("bubblewrap isn't installed: install the package bubblewrap (/usr/bin/bwrap)")

// minVersion is the oldest version whose options are used: --perms came with 0.5; 0.8 is the oldest that was tried.
var minVersion = [2]int{0, 8}

// Program is a bubblewrap that may be used.
type Program struct {
	Path    string
	Version string
}

// Find returns this machine's bubblewrap. It executes it for its version.
func Find() (Program, error) {
	for _, path := range paths {
		p, err := find(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
	}
	return Program{}, ErrMissing
}

func find(path string) (Program, error) {
	if err := trusted(path); err != nil {
		return Program{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mounts.ProbeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w", path, err)
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "bubblewrap ")
	if !ok || !isRecent(version) {
		return Program{}, fmt.Errorf("%s is version %q, and it takes %d.%d or newer", path, version, minVersion[0], minVersion[1])
	}
	return Program{path, version}, nil
}

// trusted rejects a program that another user could have replaced, and one that runs as root.
func trusted(path string) error {
	mode, err := mounts.Trusted(path)
	if err == nil && mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return fmt.Errorf("%s is setuid, and toolguard doesn't use it as root: chmod u-s %s, if unprivileged user namespaces work here", path, path)
	}
	return err
}

func isRecent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > minVersion[0] || major == minVersion[0] && minor >= minVersion[1])
}

// restriction is a setting by which a kernel denies user namespaces.
type restriction struct{ file, value, why string }

var restrictions = []restriction{
	{
		"/proc/sys/kernel/unprivileged_userns_clone", "0",
		"user namespaces are off for ordinary users (Debian): sysctl -w kernel.unprivileged_userns_clone=1",
	},
	{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are off: sysctl -w user.max_user_namespaces=15000"},
	{
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"AppArmor restricts user namespaces (Ubuntu): install an AppArmor profile for bwrap that has `userns,` (package apparmor-profiles: " +
			"bwrap-userns-restrict), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
	},
}

// whyNot returns what restricts user namespaces on this machine, or "".
func whyNot(read func(string) ([]byte, error)) string {
	for _, r := range restrictions {
		if b, err := read(r.file); err == nil && strings.TrimSpace(string(b)) == r.value {
			return r.why
		}
	}
	return ""
}

// explain adds the cause to an error of bubblewrap's, as far as the machine's settings show it.
func explain(err error, output string) error {
	if text := strings.TrimSpace(output); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if why := whyNot(os.ReadFile); why != "" && os.Geteuid() != 0 {
		return fmt.Errorf("%w; %s", err, why)
	}
	if strings.Contains(output, "mount proc") {
		return fmt.Errorf("%w; a container that masks parts of /proc allows no new /proc: start it with an unmasked /proc "+
			"(docker: --security-opt systempaths=unconfined)", err)
	}
	return err
}
