package mounts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// canaryScript is what the session of a canary does in its tree, which it may write. It prints one word for each operation that had the expected
// result.
const canaryScript = `
cd "$1" || exit
echo x >"$2" && echo wrote
(echo x >masked/"$2") 2>/dev/null || echo read-only
(read -r x <hidden) 2>/dev/null || echo hidden
(read -r x <covered/file) 2>/dev/null || echo covered
mv above moved 2>/dev/null || echo pinned
[ "$$" -lt "$3" ] && echo pids
`

const canaryResults = "wrote\nread-only\nhidden\ncovered\npinned\npids\n"

// ProbeTime bounds each execution of a probe.
const ProbeTime = 10 * time.Second

// Canary is a program that makes the mounts of a session, as its canary needs it.
type Canary struct {
	Root, Tmp Mount // those of "/" and of the private /tmp
	MaxPID    int   // the session's pid is less
	Path      string
	Args      func(p *Plan, inner []string) (args []string, files []*os.File, err error) // files are those from descriptor 3 on
	Explain   func(err error, output string) error                                       // adds to an error what the program wrote
}

// Run checks in a session of its own that the program works on this machine, and denies: what may be written is, a masked folder can't be written,
// hidden ones can't be read, and a folder above a mask can't be moved.
func (c *Canary) Run() error {
	tree, err := NewCanaryTree()
	if err != nil {
		return err
	}
	return errors.Join(c.run(tree), tree.Remove())
}

func (c *Canary) run(t *CanaryTree) error {
	args, files, err := c.Args(c.plan(t.Dir), []string{"/bin/sh", "-c", canaryScript, "sh", t.Dir, t.Name, strconv.Itoa(c.MaxPID)})
	for _, f := range files {
		defer f.Close()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ProbeTime)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = []string{"PATH=/usr/bin:/bin"}, "/", &out, &errs, files
	if err := cmd.Run(); err != nil && out.Len() == 0 {
		return c.Explain(err, errs.String())
	}
	if out.String() != canaryResults {
		return fmt.Errorf("its canary had the results %q instead of %q: %s", out.String(), canaryResults, strings.TrimSpace(errs.String()))
	}
	return nil
}

// plan is a plan with a mount of each kind.
func (c *Canary) plan(dir string) *Plan {
	return &Plan{PrivateTmp: true, Mounts: []Mount{
		c.Root,
		c.Tmp,
		{Path: dir, Mode: ReadWrite, Dir: true},
		{Path: dir + "/above", Mode: ReadWrite, Dir: true},
		{Path: dir + "/above/below", Mode: ReadOnly, Dir: true},
		{Path: dir + "/covered", Mode: Hidden, Dir: true},
		{Path: dir + "/hidden", Mode: Hidden},
		{Path: dir + "/masked", Mode: ReadOnly, Dir: true},
	}}
}

// CanaryTree is a folder with a file or folder for a mount of each kind. Sessions of the same user may write in /tmp while it's made: each step is
// relative to an open folder, follows no symlink and replaces nothing, and the names are random.
type CanaryTree struct {
	Dir  string
	Name string // of the file that the canary makes
}

// NewCanaryTree makes a tree, which the caller removes. TMPDIR isn't used: a policy may let a session write it.
func NewCanaryTree() (*CanaryTree, error) {
	c := &CanaryTree{"/tmp/toolguard-canary-" + rand.Text(), rand.Text()}
	top, err := newFolder(unix.AT_FDCWD, c.Dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	err = newFile(top, "hidden")
	for _, folder := range []struct{ name, sub, file string }{{"masked", "", ""}, {"covered", "", "file"}, {"above", "below", ""}} {
		fd, e := newFolder(top, folder.name)
		if e == nil && folder.sub != "" {
			var sub int
			if sub, e = newFolder(fd, folder.sub); e == nil {
				_ = unix.Close(sub)
			}
		}
		if e == nil && folder.file != "" {
			e = newFile(fd, folder.file)
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Remove removes the tree.
func (c *CanaryTree) Remove() error { return os.RemoveAll(c.Dir) }

func newFolder(at int, name string) (fd int, err error) {
	if err := unix.Mkdirat(at, name, 0o700); err != nil {
		return -1, &os.PathError{Op: "mkdir", Path: name, Err: err}
	}
	fd, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

func newFile(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	_, err = unix.Write(fd, []byte("secret\n"))
	return errors.Join(err, unix.Close(fd))
}
