package firejail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/proc"
)

// paths are where distributions install firejail. PATH isn't searched: the session may write there.
var paths = []string{"/usr/bin/firejail", "/usr/local/bin/firejail"}

// ErrMissing is returned where firejail isn't installed.
var ErrMissing = errors.New("firejail isn't installed: install the package firejail (/usr/bin/firejail)")

// minVersion is the oldest version that was tried. Its predecessors have known ways to become root (CVE-2022-31214).
var minVersion = [3]int{0, 9, 72}

// Program is a firejail that may be used.
type Program struct {
	Path    string
	Version string
}

// Find returns this machine's firejail. It executes it for its version.
func Find() (Program, error) {
	if os.Geteuid() == 0 {
		return Program{}, errors.New("firejail is used for ordinary users: what it hides, root can open, and bubblewrap needs nothing more for root")
	}
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
	if nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && nnp == 1 {
		return Program{}, errors.New("firejail can't start here: no_new_privs is set, as in another sandbox, and firejail is setuid")
	}
	ctx, cancel := context.WithTimeout(context.Background(), mounts.ProbeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w: %s", path, err, strings.Join(strings.Fields(string(out)), " "))
	}
	line, _, _ := strings.Cut(string(out), "\n")
	version, ok := strings.CutPrefix(strings.TrimSpace(line), "firejail version ")
	if !ok || !isRecent(version) {
		return Program{}, fmt.Errorf("%s is version %q, and it takes 0.9.72 or newer", path, version)
	}
	return Program{path, version}, nil
}

// trusted rejects a program that another user could have replaced, and one that isn't setuid root.
func trusted(path string) error {
	mode, err := mounts.Trusted(path)
	if err == nil && mode&fs.ModeSetuid == 0 && os.Geteuid() != 0 {
		return fmt.Errorf("%s isn't setuid root, and does nothing for other users", path)
	}
	return err
}

func isRecent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return false
	}
	for i, least := range minVersion {
		n, err := strconv.Atoi(leadingDigits(parts[i]))
		if err != nil || n < least {
			return false
		}
		if n > least {
			return true
		}
	}
	return true
}

// leadingDigits returns "72" of "72rc1".
func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// ProfileFile returns a file without a name that has a profile's text.
func ProfileFile(text []byte) (*os.File, error) { return proc.MemoryFile("profile", text) }

// Canary checks in a session of its own that firejail works on this machine, and denies.
func (p Program) Canary() error {
	c := mounts.Canary{
		Root: mounts.Mount{Path: "/", Mode: mounts.ReadWrite, Dir: true}, Tmp: mounts.Mount{Path: tmp, Mode: mounts.Hidden, Dir: true, Open: true},
		MaxPID: 20, Path: p.Path, Args: canaryArgs,
		Explain: func(err error, output string) error { return fmt.Errorf("%w: %s", err, strings.TrimSpace(output)) },
	}
	return c.Run()
}

func canaryArgs(plan *mounts.Plan, inner []string) ([]string, []*os.File, error) {
	text, err := Profile(plan)
	if err != nil {
		return nil, nil, err
	}
	file, err := ProfileFile(text)
	if err != nil {
		return nil, nil, err
	}
	return Args(Options{ProfileFD: 3}, inner), []*os.File{file}, nil
}
