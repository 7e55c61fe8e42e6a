package kernelaudit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stateDir holds what is shared by all who need auditing on. Only root can be among them.
const stateDir = "/run/toolguard/audit"

// wantBacklog is how many records the kernel may queue while auditing is held. Its own default, 64, is less than what a
// short burst of refusals needs, and Landlock's records don't wait for room: they are dropped.
const wantBacklog = 16384

// found is what auditing was like before the first user came, kept in a file so that the last one out, or the next one
// after a crash, can put it back.
type found struct {
	Boot         string `json:"boot"`
	Enabled      uint32 `json:"enabled"`
	BacklogLimit uint32 `json:"backlog_limit"`
}

// hold keeps auditing on. Every user has a shared lock on one file, which the kernel drops when the user dies, however
// it dies; the changes themselves are made under an exclusive lock on another.
type hold struct {
	dir     *os.Root
	users   *os.File
	control int
}

// holdAudit turns auditing on where it is off, and makes room for records. A nil hold means that nothing had to be done:
// auditing is on already and somebody else runs it. Also returns what the kernel said; asking costs some 250 µs, as the
// kernel starts a thread for each answer, so it's done once.
func holdAudit(control int, path string) (*hold, status, error) {
	dir, err := openState(path)
	if err != nil {
		now, serr := getStatus(control)
		if serr == nil && now.foreign() && now.Enabled != 0 {
			return nil, now, nil
		}
		return nil, now, errors.Join(serr, err)
	}
	h := &hold{dir: dir, control: control}
	var now status
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

// locked runs f under the lock of all changes.
func (h *hold) locked(f func() error) error {
	lock, err := h.open("lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := flock(lock, unix.LOCK_EX); err != nil {
		return err
	}
	return f()
}

// enter joins the users; the first one notes what it finds. now becomes what it is afterwards.
func (h *hold) enter(now *status) (err error) {
	if h.users, err = h.open("users"); err != nil {
		return err
	}
	if flock(h.users, unix.LOCK_EX|unix.LOCK_NB) == nil {
		if err := h.note(*now); err != nil {
			return err
		}
	}
	if err := flock(h.users, unix.LOCK_SH); err != nil {
		return err
	}
	want := status{Enabled: 1, BacklogLimit: wantBacklog}
	if now.Enabled == 0 {
		want.Mask |= maskEnabled
	}
	if now.BacklogLimit != 0 && now.BacklogLimit < wantBacklog { // 0 is no limit
		want.Mask |= maskBacklogLimit
	}
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

// note writes down what the first user found, unless a crashed one of this boot did already.
func (h *hold) note(now status) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	if old, err := h.noted(); err == nil && old.Boot == boot {
		return nil
	}
	b, err := json.Marshal(found{Boot: boot, Enabled: now.Enabled, BacklogLimit: now.BacklogLimit})
	if err != nil {
		return err
	}
	// Written whole under another name first: half a note would be worse than none.
	f, err := h.dir.OpenFile("found.new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return h.dir.Rename("found.new", "found")
}

func (h *hold) noted() (f found, err error) {
	file, err := h.dir.Open("found")
	if err != nil {
		return f, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, 1<<12))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(b, &f)
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
	err := flock(h.users, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil // somebody else still needs it
	}
	if err != nil {
		return err
	}
	old, err := h.noted()
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
	return h.dir.Remove("found")
}

// restore undoes what is still as enter left it: what anybody else changed since is theirs.
func (h *hold) restore(old found, now status) error {
	back := status{Enabled: old.Enabled, BacklogLimit: old.BacklogLimit}
	if now.Enabled == 1 && old.Enabled == 0 && now.PID == 0 {
		back.Mask |= maskEnabled
	}
	if now.BacklogLimit == wantBacklog && old.BacklogLimit != wantBacklog {
		back.Mask |= maskBacklogLimit
	}
	if back.Mask == 0 {
		return nil
	}
	return setStatus(h.control, back)
}

func (h *hold) open(name string) (*os.File, error) {
	return h.dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

func (h *hold) close() {
	if h.users != nil {
		h.users.Close()
	}
	h.dir.Close()
}

// openState opens the folder, makes it where it is missing, and refuses one that others could have prepared.
func openState(path string) (*os.Root, error) {
	parent := path[:strings.LastIndexByte(path, '/')]
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{{parent, 0o755}, {path, 0o700}} {
		if err := os.Mkdir(d.path, d.mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := ownedByRoot(d.path); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(path)
}

// ownedByRoot reports a folder that somebody else could change. Its parent must have passed the same test, so that it
// can't be exchanged afterwards.
func ownedByRoot(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a directory of root's that nobody else can write", path)
	}
	return nil
}

// lockTime bounds the wait for a lock. Users hold it for microseconds; a guarded root process that may read /run can hold
// it for ever, which must cost the sight of denials, not the start of every session.
const lockTime = time.Second

func flock(f *os.File, how int) error {
	for end := time.Now().Add(lockTime); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK) || how&unix.LOCK_NB != 0 || time.Now().After(end):
			return os.NewSyscallError("flock", err)
		}
	}
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
