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

// parentName is the folder below the base with all sessions' cgroups.
const parentName = "toolguard"

// validID reports whether id is a valid folder name without separators.
func validID(id string) bool {
	letters := strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
	return letters && id != "" && len(id) <= 64 && id[0] != '-' && id[0] != '_'
}

// mode is the mode of the folders, independent of the umask: programs read the limits of their own cgroup, whose path they know.
// Who may open a folder could lock it.
const mode = 0o711

// Group is the cgroup of one session. Its folder's descriptor identifies it, whatever happens to the path. The descriptor has a
// lock, which ends with the process.
type Group struct {
	path string // absolute
	dir  *os.File
}

// Parent returns the folder with all sessions' cgroups.
func (f Support) Parent() string { return filepath.Join(f.Mount, f.Base, parentName) }

// New creates the cgroup of a session with its limits. It fails if a limit can't be set.
func New(id string, limits policy.Limits, f Support) (*Group, error) {
	return NewIn(f.Parent(), id, limits, f, func(path string) error { return applyLimits(path, limits, f) })
}

// NewIn creates the cgroup of a session beneath another one. set writes its limits.
func NewIn(parent, id string, limits policy.Limits, f Support, set func(path string) error) (_ *Group, err error) {
	if !validID(id) {
		return nil, fmt.Errorf("cgroup: %q isn't a valid session id", id)
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
	_ = os.Chmod(parent, mode) // fails if another user owns it
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

// create creates the folder, and retries if another process's removeOrphans has removed it.
func (g *Group) create() error {
	for {
		if err := os.Mkdir(g.path, mode); err != nil {
			return err // an existing one belongs to another session
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

// lockFolder prevents another process's removeOrphans from removing a folder. Such a process locks it for a moment; a lock that
// lasts longer, as a confined process of root could have, has the same effect.
func lockFolder(dir *os.File) {
	for range 1000 {
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// removeOrphans removes cgroups without lock and processes: those whose creator was killed.
func removeOrphans(parent string) {
	entries, _ := os.ReadDir(parent) // on an error, there is nothing to remove
	for _, e := range entries {
		dir, err := open(filepath.Join(parent, e.Name()))
		if err != nil {
			continue
		}
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			removeOrphans(dir.Name())
			_ = unix.Rmdir(dir.Name()) // fails if it has processes
		}
		_ = dir.Close()
	}
}

// applyLimits enables the controllers and writes the limits.
func applyLimits(path string, l policy.Limits, f Support) error {
	all, err := settings(l)
	if err != nil {
		return err
	}
	for _, s := range all {
		for _, dir := range []string{filepath.Join(f.Mount, f.Base), f.Parent()} { // the kernel requires this order
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

// Path returns the path of the folder.
func (g *Group) Path() string { return g.path }

// FD returns the folder's descriptor, for CLONE_INTO_CGROUP, which doesn't wait. Add waits until every processor has passed through
// the scheduler, which can take some milliseconds.
func (g *Group) FD() int { return int(g.dir.Fd()) }

// Add moves a process with all its threads to the cgroup. Its existing children stay where they are.
func (g *Group) Add(pid int) error {
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

// Processes returns the pids of the processes in the cgroup.
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

// Threads returns the number of threads in the cgroup.
func (g *Group) Threads() (int, error) {
	listed, err := words(g.path + "/cgroup.threads")
	return len(listed), err
}

// MoveTo moves a process to the cgroup of another one.
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

// Kill kills every process in the cgroup, and those that are being forked (Linux 5.14). It doesn't wait: WaitEmpty does.
func (g *Group) Kill() error { return g.write("cgroup.kill", "1") }

// Populated reports whether the cgroup has processes, except zombies.
func (g *Group) Populated() (bool, error) {
	ev, err := g.keyed("cgroup.events")
	return ev["populated"] != 0, err
}

// WaitEmpty waits until the cgroup has no processes. It returns the context's error.
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

// poll waits for a change, at most 50 ms, so that the context's end is noticed.
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

// Remove removes the cgroup, which must be empty.
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
