package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// parentName is the folder below the base that all sessions' cgroups are in.
const parentName = "toolguard"

// validID says whether id can be a folder's name and nothing more.
func validID(id string) bool {
	letters := strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
	return letters && id != "" && len(id) <= 64 && id[0] != '-' && id[0] != '_'
}

// mode is the folders', whatever the umask: programs look at their own cgroup's limits, whose path they know. Who may open a folder could
// lockFolder it.
const mode = 0o711

// Group is the cgroup of one session. It is held by its folder's descriptor, so nothing that happens to the path makes it
// another one. A lock on that is gone with whoever has it.
type Group struct {
	path string // absolute
	dir  *os.File
}

// Parent is the folder that all sessions' cgroups are in.
func (f Support) Parent() string { return filepath.Join(f.Mount, f.Base, parentName) }

// New makes the cgroup of a session, with its limits. It fails rather than leave a limit out.
func New(id string, limits policy.Limits, f Support) (*Group, error) {
	return NewIn(f.Parent(), id, limits, f, func(path string) error { return applyLimits(path, limits, f) })
}

// NewIn makes the cgroup of a session beneath another one. set writes its limits.
func NewIn(parent, id string, limits policy.Limits, f Support, set func(path string) error) (_ *Group, err error) {
	if !validID(id) {
		return nil, fmt.Errorf("cgroup: %q can't be a session's name", id)
	}
	if f.Base == "" {
		return nil, fmt.Errorf("cgroup: %s", f.Why)
	}
	for _, row := range cgroupLimits(limits) {
		if row.set && !f.Has(row.controller) {
			return nil, fmt.Errorf("cgroup: set limits: %s: %s", row.id, f.Why)
		}
	}
	if err := os.Mkdir(parent, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	_ = os.Chmod(parent, mode) // fails where it's somebody else's
	removeOrphans(parent)
	g := &Group{path: filepath.Join(parent, id)}
	if err := g.create(); err != nil {
		return nil, err
	}
	if err := set(g.path); err != nil {
		_ = g.rmdir()
		_ = g.dir.Close()
		return nil, fmt.Errorf("cgroup %s: set limits: %w", g.path, err)
	}
	return g, nil
}

// create makes the folder, and again where somebody who tidies up took it for left behind.
func (g *Group) create() error {
	for {
		if err := os.Mkdir(g.path, mode); err != nil {
			return err // one that exists is somebody else's
		}
		dir, err := open(g.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		lockFolder(dir)
		if _, err := os.Lstat(g.path); err == nil {
			g.dir = dir
			return dir.Chmod(mode)
		}
		_ = dir.Close()
	}
}

// lockFolder keeps those who tidy up off a folder. One of them has the lock for a moment; somebody who goes on having it (a guarded process of
// root's could) keeps them off as well.
func lockFolder(dir *os.File) {
	for range 1000 {
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// removeOrphans removes cgroups that nobody has and nobody is in: who made them was killed.
func removeOrphans(parent string) {
	entries, _ := os.ReadDir(parent) // what can't be read can't be tidied up either
	for _, e := range entries {
		dir, err := open(filepath.Join(parent, e.Name()))
		if err != nil {
			continue
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			removeOrphans(dir.Name())
			_ = unix.Rmdir(dir.Name()) // one that has processes stays
		}
		_ = dir.Close()
	}
}

// applyLimits turns the controllers on and writes the limits.
func applyLimits(path string, l policy.Limits, f Support) error {
	all, err := settings(l)
	if err != nil {
		return err
	}
	for _, s := range all {
		for _, dir := range []string{filepath.Join(f.Mount, f.Base), f.Parent()} { // from the top down, or it's refused
			if err := writeFile(dir+"/cgroup.subtree_control", "+"+s.controller); err != nil {
				return err
			}
		}
		for _, v := range s.values {
			err := writeFile(filepath.Join(path, s.file), v)
			if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	return nil
}

// Path is the cgroup's folder.
func (g *Group) Path() string { return g.path }

// FD is the descriptor of the folder, for CLONE_INTO_CGROUP: the way in that doesn't wait for anything. Add waits until
// every processor has passed through the scheduler, which can take some milliseconds.
func (g *Group) FD() int { return int(g.dir.Fd()) }

// Add moves a process with all its threads into the cgroup. What it forked before stays where it was.
func (g *Group) Add(pid int) error {
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

// Processes are the numbers of those in the cgroup.
func (g *Group) Processes() ([]int, error) {
	listed, err := words(g.path + "/cgroup.procs")
	if err != nil {
		return nil, err
	}
	pids := make([]int, len(listed))
	for i, word := range listed {
		if pids[i], err = strconv.Atoi(word); err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// Threads is how many threads those in the cgroup have.
func (g *Group) Threads() (int, error) {
	listed, err := words(g.path + "/cgroup.threads")
	return len(listed), err
}

// MoveTo puts a process into the cgroup that another one is in.
func MoveTo(pid, other int) error {
	_, v2, err := mountedHierarchies()
	if err != nil {
		return err
	}
	chain, err := ancestors(strconv.Itoa(other), v2)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(v2.point, chain[len(chain)-1], "cgroup.procs"), strconv.Itoa(pid))
}

// Kill ends every process in the cgroup and those that are just being forked (Linux 5.14). It returns before they have
// ended: WaitEmpty waits.
func (g *Group) Kill() error { return g.write("cgroup.kill", "1") }

// Populated reports whether any process is left, zombies not counted.
func (g *Group) Populated() (bool, error) {
	ev, err := g.keyed("cgroup.events")
	return ev["populated"] != 0, err
}

// WaitEmpty returns when no process is left, or with the context's error.
func (g *Group) WaitEmpty(ctx context.Context) error {
	fd, err := unix.Openat(g.FD(), "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: g.path + "/cgroup.events", Err: err}
	}
	defer unix.Close(fd)
	for {
		// Reading arms the notification: a change after it makes poll return (POLLPRI).
		var buf [256]byte
		n, err := unix.Pread(fd, buf[:], 0)
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		ev, err := parseKeyed(buf[:n])
		if err != nil || ev["populated"] == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := poll(ctx, fd); err != nil {
			return err
		}
	}
}

// poll waits for a change, but no longer than a while, so that the context's end is seen.
func poll(ctx context.Context, fd int) error {
	wait := 50 * time.Millisecond
	if end, ok := ctx.Deadline(); ok {
		wait = max(min(wait, time.Until(end)), time.Millisecond)
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(wait.Milliseconds()))
	if err != nil && err != unix.EINTR {
		return os.NewSyscallError("poll", err)
	}
	return nil
}

// Remove takes the cgroup away. It must be empty.
func (g *Group) Remove() error {
	err := g.rmdir()
	for range 500 { // a process counts until it is reaped, some moments after it stopped being counted as populated
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(time.Millisecond)
		err = g.rmdir()
	}
	if err == nil {
		g.dir.Close()
	}
	return err
}

func (g *Group) rmdir() error {
	if err := unix.Rmdir(g.path); err != nil {
		return &fs.PathError{Op: "rmdir", Path: g.path, Err: err}
	}
	return nil
}

func (g *Group) write(name, value string) error {
	fd, err := unix.Openat(g.FD(), name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(value))
		unix.Close(fd)
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: g.path + "/" + name, Err: err}
	}
	return nil
}

func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
