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

// stateDir holds what is shared by all who need auditing on. Only root can be among them.
const stateDir = "/run/toolguard/audit"

// wantBacklog is how many records the kernel may queue while auditing is held. Its own default, 64, is less than what a
// short burst of denials needs, and Landlock's records don't wait for capacity: they are dropped.
const wantBacklog = 16384

// found is what auditing was like before the first user came, noted in a file so that the last one out, or the next one
// after a crash, can put it back.
type found struct {
	boot                  string
	enabled, backlogLimit uint32
}

// hold keeps auditing on. Every user has a shared lock on one file, which the kernel drops when the user dies, however
// it dies; the changes themselves are made under an exclusive lock on another. The files are plain descriptors, since os.File
// would register each with the runtime's poller.
type hold struct {
	lock, users, note int
	control           int
}

// holdAudit turns auditing on where it is off, and raises the capacity for records. A nil hold means that nothing had to be done:
// auditing is on already and another program runs it. Also returns what the kernel said; asking costs some 250 µs, as the
// kernel starts a thread for each answer, so it's done once.
func holdAudit(control int, path string) (*hold, status, error) {
	h, err := openHold(control, path)
	if err != nil {
		now, serr := getStatus(control)
		if serr == nil && now.foreign() && now.Enabled != 0 {
			return nil, now, nil
		}
		return nil, now, errors.Join(serr, err)
	}
	now, err := h.join()
	if err == nil {
		return h, now, nil
	}
	needed := false
	err = h.locked(func() (err error) {
		if now, err = getStatus(control); err != nil {
			return err
		}
		if now.foreign() {
			return now.on()
		}
		needed = true
		return h.enter(&now)
	})
	if err != nil || !needed {
		h.close()
		h = nil
	}
	return h, now, err
}

// foreign reports that auditing isn't toolguard's to change: auditd runs, or the configuration is locked until reboot.
func (s status) foreign() bool { return s.Enabled == 2 || s.PID != 0 }

func (s status) on() error {
	if s.Enabled == 0 {
		return errors.New("auditd runs with auditing off: turn it on with `auditctl -e 1`")
	}
	return nil
}

var errNotJoined = errors.New("auditing is not held by another user, or has to be changed")

// join joins users that are there already, where nothing has to be changed. It takes no lock of all changes, on which the
// starts of many sessions at once would wait for each other. Whoever is the last to leave needs the users' lock alone, and
// restores auditing before it gives it up, so a user that has joined has its shared lock after that.
func (h *hold) join() (now status, err error) {
	boot, err := bootID()
	if err != nil {
		return now, err
	}
	if f, err := h.read(); err != nil || f.boot != boot {
		return now, errNotJoined
	}
	if err := flock(h.users, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return now, err
	}
	f, err := h.read() // the last user may have left since
	if err == nil && f.boot == boot {
		now, err = getStatus(h.control)
	}
	if err == nil && (f.boot != boot || now.foreign() || now.toChange() != 0) {
		err = errNotJoined
	}
	if err != nil {
		return now, errors.Join(err, flock(h.users, unix.LOCK_UN))
	}
	return now, nil
}

// locked runs f under the lock of all changes.
func (h *hold) locked(f func() error) error {
	if err := flock(h.lock, unix.LOCK_EX); err != nil {
		return err
	}
	return errors.Join(f(), flock(h.lock, unix.LOCK_UN))
}

// enter joins the users; the first one notes what it finds. now becomes what it is afterwards.
func (h *hold) enter(now *status) (err error) {
	if flock(h.users, unix.LOCK_EX|unix.LOCK_NB) == nil {
		if err := h.write(*now); err != nil {
			return err
		}
	}
	if err := flock(h.users, unix.LOCK_SH); err != nil {
		return err
	}
	want := status{Mask: now.toChange(), Enabled: 1, BacklogLimit: wantBacklog}
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

// toChange returns the mask of what enter has to change.
func (s status) toChange() (mask uint32) {
	if s.Enabled == 0 {
		mask |= maskEnabled
	}
	if s.BacklogLimit != 0 && s.BacklogLimit < wantBacklog { // 0 is no limit
		mask |= maskBacklogLimit
	}
	return mask
}

// write notes what the first user found, unless a crashed one of this boot did already.
func (h *hold) write(now status) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	if old, err := h.read(); err == nil && old.boot == boot {
		return nil
	}
	return h.put(found{boot, now.Enabled, now.BacklogLimit})
}

// noteSize is to what length a note is padded, so that each is written whole over the one before.
const noteSize = 128

// put writes a note; an empty one says that there is nothing to put back.
func (h *hold) put(f found) error {
	b := make([]byte, 0, noteSize)
	b = append(append(b, `{"boot":"`...), f.boot...)
	b = strconv.AppendUint(append(b, `","enabled":`...), uint64(f.enabled), 10)
	b = strconv.AppendUint(append(b, `,"backlog_limit":`...), uint64(f.backlogLimit), 10)
	b = append(b, '}')
	for len(b) < noteSize {
		b = append(b, '\n')
	}
	n, err := unix.Pwrite(h.note, b, 0)
	if err == nil && n != len(b) {
		err = unix.EIO
	}
	return err
}

func (h *hold) read() (f found, err error) {
	var b [noteSize]byte
	n, err := unix.Pread(h.note, b[:], 0)
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
	return found{words[1], uint32(enabled), uint32(limit)}, err
}

// release leaves; the last one out puts back what was found. recent is what the kernel said just now, if it was asked.
func (h *hold) release(recent *status) error {
	if h == nil {
		return nil
	}
	defer h.close()
	return h.locked(func() error { return h.leave(recent) })
}

func (h *hold) leave(recent *status) error {
	// Before the lock of all changes is given up: the next one to come or to leave must see who is there.
	defer flock(h.users, unix.LOCK_UN)
	err := flock(h.users, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil // another user still needs it
	}
	if err != nil {
		return err
	}
	old, err := h.read()
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
	return h.put(found{})
}

// restore undoes what is still as enter left it: it keeps what others changed since.
func (h *hold) restore(old found, now status) error {
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

func (h *hold) close() {
	for _, fd := range []int{h.lock, h.users, h.note} {
		_ = unix.Close(fd) // one that wasn't opened is -1
	}
}

// openHold opens the files in the folder at path.
func openHold(control int, path string) (_ *hold, err error) {
	dir, err := openState(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	h := &hold{lock: -1, users: -1, note: -1, control: control}
	if h.lock, err = openFile(dir, "lock"); err == nil {
		h.users, err = openFile(dir, "users")
	}
	if err == nil {
		h.note, err = openFile(dir, "found")
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

// openState opens the folder, makes it where it is missing, and refuses one that others could have prepared.
func openState(path string) (int, error) {
	parent, err := openFolder(unix.AT_FDCWD, filepath.Dir(path), 0o755)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	return openFolder(parent, filepath.Base(path), 0o700)
}

// openFolder opens a folder that only root can change.
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
		err = fmt.Errorf("%s must be a directory of root's that nobody else can write", name)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lockTime bounds the wait for a lock. Users hold it for microseconds, or tens of milliseconds each on a machine that has far
// more to do than processors; a confined root process that may read /run can hold it for ever, which must cost the sight of
// denials, not the start of every session.
const lockTime = 5 * time.Second

func flock(fd, how int) error {
	for end := time.Now().Add(lockTime); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK) || how&unix.LOCK_NB != 0:
			return os.NewSyscallError("flock", err)
		case time.Now().After(end):
			return fmt.Errorf("another process has had a lock in %s for %v", stateDir, lockTime)
		}
	}
}

func bootID() (string, error) { return readLine("/proc/sys/kernel/random/boot_id") }
