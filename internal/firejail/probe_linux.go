package firejail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/mounts"
)

// paths are where distributions install firejail. PATH isn't searched: the session may write there.
var paths = []string{"/usr/bin/firejail", "/usr/local/bin/firejail"}

// ErrMissing is returned where firejail isn't installed.
var ErrMissing = errors.New("firejail isn't installed: install the package firejail (/usr/bin/firejail)")

// minVersion is the oldest version that was tried. Its predecessors have known ways to become root (CVE-2022-31214).
var minVersion = [3]int{0, 9, 72}

const timeout = 10 * time.Second

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
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
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
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !ok || st.Uid != 0:
		return fmt.Errorf("%s isn't owned by root", path)
	case !mode.IsRegular():
		return fmt.Errorf("%s isn't a regular file", path)
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%s can be changed by other users than root (mode %04o)", path, mode.Perm())
	case mode&fs.ModeSetuid == 0 && os.Geteuid() != 0:
		return fmt.Errorf("%s isn't setuid root, and does nothing for other users", path)
	case mode.Perm()&0o111 == 0:
		return fmt.Errorf("%s isn't executable", path)
	}
	return nil
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
func ProfileFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("profile", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("profile", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "profile")
	if _, err := f.Write(text); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// canary is what the session of a canary does, in a folder that it may write. It prints one word for each operation that had the expected result.
const canary = `
cd "$1" || exit
echo x >"$2" && echo wrote
(echo x >masked/"$2") 2>/dev/null || echo read-only
(read -r x <hidden) 2>/dev/null || echo hidden
(read -r x <covered/file) 2>/dev/null || echo covered
mv above moved 2>/dev/null || echo pinned
[ "$$" -lt 20 ] && echo pids
`

const expected = "wrote\nread-only\nhidden\ncovered\npinned\npids\n"

// Canary checks in a session of its own that firejail works on this machine, and denies: what may be written is, a masked folder can't be
// written, hidden ones can't be read, and a folder above a mask can't be moved.
func (p Program) Canary() error {
	tree, err := mounts.NewCanaryTree()
	if err != nil {
		return err
	}
	return errors.Join(p.runCanary(tree.Dir, tree.Name), tree.Remove())
}

func (p Program) runCanary(dir, name string) error {
	text, err := Profile(canaryPlan(dir))
	if err != nil {
		return err
	}
	file, err := ProfileFile(text)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Path, Args(Options{ProfileFD: 3}, []string{"/bin/sh", "-c", canary, "sh", dir, name})...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = []string{"PATH=/usr/bin:/bin"}, "/", &out, &errs, []*os.File{file}
	if err := cmd.Run(); err != nil && out.Len() == 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	if out.String() != expected {
		return fmt.Errorf("its canary had the results %q instead of %q: %s", out.String(), expected, strings.TrimSpace(errs.String()))
	}
	return nil
}

// canaryPlan is a plan with a mount of each kind.
func canaryPlan(dir string) *mounts.Plan {
	return &mounts.Plan{PrivateTmp: true, Mounts: []mounts.Mount{
		{Path: "/", Mode: mounts.ReadWrite, Dir: true},
		{Path: tmp, Mode: mounts.Hidden, Dir: true, Open: true},
		{Path: dir, Mode: mounts.ReadWrite, Dir: true},
		{Path: dir + "/above", Mode: mounts.ReadWrite, Dir: true},
		{Path: dir + "/above/below", Mode: mounts.ReadOnly, Dir: true},
		{Path: dir + "/covered", Mode: mounts.Hidden, Dir: true},
		{Path: dir + "/hidden", Mode: mounts.Hidden},
		{Path: dir + "/masked", Mode: mounts.ReadOnly, Dir: true},
	}}
}
