package kernelaudit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stateDir has the files that all processes with a lease share. Only root can write it.
const stateDir = "/run/toolguard/audit"

// wantBacklog is how many records the kernel may queue while a lease exists. Its own default, 64, is less than a short burst of denials
// needs, and Landlock's records don't wait for capacity: they are dropped.
const wantBacklog = 16384

// savedState is the state of auditing before the first lease, saved in a file so that the last process with a lease, or the next one after
// a crash, can restore it.
type savedState struct {
	boot                  string
	enabled, backlogLimit uint32
}

// lease keeps auditing on for the whole machine. Every process with a lease has a shared lock on one file, which the kernel drops however the
// process ends; changes are made under an exclusive lock on another. The files are plain descriptors, since os.File would register each with
// the runtime's poller.
type lease struct {
	lock, users, stateFile int
	control                int
}

// acquireLease turns auditing on where it is off, and raises the capacity for records. The lease is nil if another program manages auditing
// and it's on. The kernel's status is returned too: a request costs some 250 µs, as the kernel starts a thread for each answer.
func acquireLease(control int, path string) (*lease, status, error) {
	h, err := openLease(control, path)
	if err != nil {
		now, serr := getStatus(control)
		if serr == nil && now.isForeign() && now.Enabled != 0 {
			return nil, now, nil
		}
		return nil, now, errors.Join(serr, err)
	}
	now, err := h.joinActive()
	if err == nil {
		return h, now, nil
	}
	needed := false
	err = h.withLock(func() (err error) {
		if now, err = getStatus(control); err != nil {
			return err
		}
		if now.isForeign() {
			return now.checkEnabled()
		}
		needed = true
		return h.join(&now)
	})
	if err != nil || !needed {
		h.close()
		h = nil
	}
	return h, now, err
}

// isForeign reports that toolguard may not change auditing: auditd runs, or the configuration is locked until reboot.
func (s status) isForeign() bool { return s.Enabled == 2 || s.PID != 0 }

func (s status) checkEnabled() error {
	if s.Enabled == 0 {
		return errors.New("auditd runs with auditing off: turn it on with `auditctl -e 1`")
	}
	return nil
}

var errNotActive = errors.New("no other process keeps auditing on, or its settings must change")

// joinActive adds a lease to existing ones if no setting must change. It doesn't lock h.lock, on which the starts of many sessions at once
// would wait for each other. The last process to leave has the exclusive lock on h.users until it has restored auditing, so a shared lock
// is acquired only after that.
func (h *lease) joinActive() (now status, err error) {
	f, err := h.readState()
	if err != nil {
		return now, errNotActive // as for most starts, which the next step would cost time
	}
	boot, err := bootID()
	if err != nil {
		return now, err
	}
	if f.boot != boot {
		return now, errNotActive
	}
	if err := flock(h.users, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return now, err
	}
	f, err = h.readState() // the last lease may have ended since
	if err == nil && f.boot == boot {
		now, err = getStatus(h.control)
	}
	if err == nil && (f.boot != boot || now.isForeign() || now.changes() != 0) {
		err = errNotActive
	}
	if err != nil {
		return now, errors.Join(err, flock(h.users, unix.LOCK_UN))
	}
	return now, nil
}

// withLock runs f under the lock that guards changes.
func (h *lease) withLock(f func() error) error {
	if err := flock(h.lock, unix.LOCK_EX); err != nil {
		return err
	}
	return errors.Join(f(), flock(h.lock, unix.LOCK_UN))
}

// join adds a lease, with h.lock locked. The first one saves the state of auditing. now becomes the status after the change.
func (h *lease) join(now *status) (err error) {
	if flock(h.users, unix.LOCK_EX|unix.LOCK_NB) == nil {
		if err := h.saveFirst(*now); err != nil {
			return err
		}
	}
	if err := flock(h.users, unix.LOCK_SH); err != nil {
		return err
	}
	want := status{Mask: now.changes(), Enabled: 1, BacklogLimit: wantBacklog}
	if want.Mask == 0 {
		return nil
	}
	if err := setStatus(h.control, want); err != nil {
		return err
	}
	now.Enabled = 1
	if want.Mask&maskBacklogLimit != 0 {
		now.BacklogLimit = wantBacklog
	}
	return nil
}

// changes returns the mask of the settings that join must change.
func (s status) changes() (mask uint32) {
	if s.Enabled == 0 {
		mask |= maskEnabled
	}
	if s.BacklogLimit != 0 && s.BacklogLimit < wantBacklog { // 0 is no limit
		mask |= maskBacklogLimit
	}
	return mask
}

// saveFirst saves the state before the first lease, unless a process that crashed since boot has done so.
func (h *lease) saveFirst(now status) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	if old, err := h.readState(); err == nil && old.boot == boot {
		return nil
	}
	return h.writeState(savedState{boot, now.Enabled, now.BacklogLimit})
}

// stateSize is the length to which saved state is padded, so that each write replaces the previous one entirely.
const stateSize = 128

// writeState saves a state; the zero value means that there is nothing to restore.
func (h *lease) writeState(f savedState) error {
	b := make([]byte, 0, stateSize)
	b = append(append(b, `{"boot":"`...), f.boot...)
	b = strconv.AppendUint(append(b, `","enabled":`...), uint64(f.enabled), 10)
	b = strconv.AppendUint(append(b, `,"backlog_limit":`...), uint64(f.backlogLimit), 10)
	b = append(b, '}')
	for len(b) < stateSize {
		b = append(b, '\n')
	}
	n, err := unix.Pwrite(h.stateFile, b, 0)
	if err == nil && n != len(b) {
		err = unix.EIO
	}
	return err
}

func (h *lease) readState() (f savedState, err error) {
	var b [stateSize]byte
	n, err := unix.Pread(h.stateFile, b[:], 0)
	if err != nil {
		return f, err
	}
	words := strings.FieldsFunc(string(b[:n]), func(c rune) bool { return strings.ContainsRune("{\":,}\n", c) })
	if len(words) != 6 {
		return f, fs.ErrNotExist
	}
	enabled, err := strconv.ParseUint(words[3], 10, 32)
	if err != nil {
		return f, err
	}
	limit, err := strconv.ParseUint(words[5], 10, 32)
	return savedState{words[1], uint32(enabled), uint32(limit)}, err
}

// release ends the lease; the last one restores the saved state. recent is the kernel's current status if it is known.
func (h *lease) release(recent *status) error {
	if h == nil {
		return nil
	}
	defer h.close()
	return h.withLock(func() error { return h.leave(recent) })
}

func (h *lease) leave(recent *status) error {
	defer flock(h.users, unix.LOCK_UN) // before h.lock is released: the next process to join or leave must see the leases that remain
	err := flock(h.users, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil // another process still has a lease
	}
	if err != nil {
		return err
	}
	old, err := h.readState()
	if err != nil {
		return fmt.Errorf("restore auditing: %w", err)
	}
	if recent == nil {
		now, err := getStatus(h.control)
		if err != nil {
			return err
		}
		recent = &now
	}
	if err := h.restore(old, *recent); err != nil {
		return err
	}
	return h.writeState(savedState{})
}

// restore undoes join's changes, except settings that another program has changed since.
func (h *lease) restore(old savedState, now status) error {
	back := status{Enabled: old.enabled, BacklogLimit: old.backlogLimit}
	if now.Enabled == 1 && old.enabled == 0 && now.PID == 0 {
		back.Mask |= maskEnabled
	}
	if now.BacklogLimit == wantBacklog && old.backlogLimit != wantBacklog {
		back.Mask |= maskBacklogLimit
	}
	if back.Mask == 0 {
		return nil
	}
	return setStatus(h.control, back)
}

func (h *lease) close() {
	for _, fd := range []int{h.lock, h.users, h.stateFile} {
		_ = unix.Close(fd) // -1 if it wasn't opened
	}
}

// openLease opens the files in the folder at path.
func openLease(control int, path string) (_ *lease, err error) {
	dir, err := openStateFolder(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	h := &lease{lock: -1, users: -1, stateFile: -1, control: control}
	if h.lock, err = openFile(dir, "lock"); err == nil {
		h.users, err = openFile(dir, "users")
	}
	if err == nil {
		h.stateFile, err = openFile(dir, "found")
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func openFile(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return fd, nil
}

// openStateFolder opens the folder, creates it where it is missing, and rejects one that another user could have prepared.
func openStateFolder(path string) (int, error) {
	parent, err := openFolder(unix.AT_FDCWD, filepath.Dir(path), 0o755)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	return openFolder(parent, filepath.Base(path), 0o700)
}

// openFolder opens or creates a folder that only root can change.
func openFolder(at int, name string, mode uint32) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := unix.Mkdirat(at, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, &fs.PathError{Op: "mkdir", Path: name, Err: err}
		}
		fd, err = unix.Openat(at, name, flags, 0)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Uid != 0 || st.Mode&0o022 != 0) {
		err = fmt.Errorf("%s must be a directory that is root's and that no other user can write", name)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lockTimeout bounds the wait for a lock. A lock is held for microseconds, or for tens of milliseconds on an overloaded machine. A confined
// root process that may read /run can hold it for ever: then denials aren't shown, but sessions still start.
const lockTimeout = 5 * time.Second

func flock(fd, how int) error {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK) || how&unix.LOCK_NB != 0:
			return os.NewSyscallError("flock", err)
		case time.Now().After(end):
			return fmt.Errorf("another process has had a lock in %s for %v", stateDir, lockTimeout)
		}
	}
}

func bootID() (string, error) { return readLine("/proc/sys/kernel/random/boot_id") }
