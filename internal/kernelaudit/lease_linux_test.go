package kernelaudit

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// readUntilKilled opens a reader, prints a line, and never closes the reader.
func readUntilKilled() error {
	r, err := Open()
	if err != nil {
		return err
	}
	r.Listen() // otherwise the runtime would report a deadlock
	fmt.Println("open")
	select {}
}

// waitUnused waits until no process has a lease, and returns the status of auditing then.
func waitUnused(t *testing.T) status {
	t.Helper()
	reader(t).Close()
	for end := time.Now().Add(patience / 4); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s, _, free := unusedStatus(t, time.Time{}); free {
			return s
		}
		if r, err := Open(); err == nil { // restores the state after a process that was killed
			r.Close()
		}
	}
	t.Skip("another process on this machine uses auditing all the time")
	return status{}
}

// unusedStatus returns the status of auditing and whether there is a saved state. free is false if a process has a lease, or if one that got
// a lease since then was killed, as processes of other tests are.
func unusedStatus(t *testing.T, since time.Time) (s status, saved, free bool) {
	t.Helper()
	h, err := openLease(-1, stateDir)
	must(t, err)
	defer h.close()
	for end := time.Now().Add(patience); flock(h.lock, unix.LOCK_EX) != nil; { // a process that joined or left now would count h as a lease
		if time.Now().After(end) {
			t.Fatal("another process never releases the lock")
		}
	}
	if flock(h.users, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return s, false, false
	}
	var st unix.Stat_t
	must(t, unix.Fstat(h.stateFile, &st))
	_, err = h.readState()
	saved = !errors.Is(err, fs.ErrNotExist)
	return currentStatus(t), saved, !saved || !time.Unix(st.Mtim.Unix()).After(since)
}

func currentStatus(t *testing.T) status {
	t.Helper()
	fd, err := openControl()
	must(t, err)
	defer unix.Close(fd)
	s, err := getStatus(fd)
	must(t, err)
	return s
}

func startReader(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), actionVar+"=hold")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "open" {
		t.Fatalf("the reader printed %q, %v", line, err)
	}
	return cmd
}

// TestLastUserRestores checks that the last of several processes restores auditing, also if one is killed before or after it.
func TestLastUserRestores(t *testing.T) {
	before := waitUnused(t)
	if before.Enabled != 0 {
		t.Skip("needs a machine on which auditing is off")
	}
	first := startReader(t)
	second, err := Open()
	must(t, err)
	if s := currentStatus(t); s.Enabled != 1 || s.BacklogLimit != wantBacklog {
		t.Errorf("with two leases: %+v", s)
	}
	first.Process.Kill()
	first.Wait()
	if s := currentStatus(t); s.Enabled != 1 {
		t.Errorf("after one of two was killed: %+v", s)
	}
	leave := func(r *Reader, when string) {
		t.Helper()
		since := time.Now()
		must(t, r.Close())
		s, saved, free := unusedStatus(t, since)
		if free && (saved || s.Enabled != before.Enabled || s.BacklogLimit != before.BacklogLimit) {
			t.Errorf("after %s: %+v, before: %+v; a saved state remains: %v", when, s, before, saved)
		}
	}
	leave(second, "the last one")

	last := startReader(t)
	last.Process.Kill()
	last.Wait()
	third, err := Open() // auditing is on, but the saved state is off
	must(t, err)
	leave(third, "a crash")

	for range 20 { // closed so soon that the kernel's status isn't requested again
		r, err := Open()
		must(t, err)
		leave(r, "a short one")
	}
}

// TestLeaveReleasesLock checks that a lease doesn't count after leave, although its files are still open.
func TestLeaveReleasesLock(t *testing.T) {
	childtest.NeedsRoot(t)
	dir := t.TempDir() + "/toolguard/audit"
	var holds [3]*lease
	for i := range holds {
		var err error
		if holds[i], err = openLease(-1, dir); err != nil {
			t.Fatal(err)
		}
		defer holds[i].close()
	}
	as := status{Enabled: 1, BacklogLimit: 64} // equals the saved state, so nothing is set in the kernel
	must(t, holds[0].writeState(savedState{"this", as.Enabled, as.BacklogLimit}))
	for _, h := range holds[:2] {
		must(t, flock(h.users, unix.LOCK_SH))
	}
	for i, h := range holds[:2] {
		must(t, h.leave(&as))
		if f, err := h.readState(); (err == nil) != (i == 0) {
			t.Errorf("after %d left: %+v, %v", i+1, f, err)
		}
	}
	if err := flock(holds[2].users, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("a shared lock remains: %v", err)
	}
}

// TestJoinActiveNeedsNoLock checks that a lease is added to existing ones without h.lock. It isn't if there is none, if the last one is
// ending, or if a setting must change.
func TestJoinActiveNeedsNoLock(t *testing.T) {
	r := reader(t)
	defer r.Close()
	if r.lease == nil {
		t.Skip("another program manages auditing here")
	}
	must(t, flock(r.lease.lock, unix.LOCK_EX))
	defer flock(r.lease.lock, unix.LOCK_UN)
	h, s, err := acquireLease(r.control, stateDir)
	if err != nil || h == nil || s.Enabled != 1 {
		t.Fatalf("joining: %v, %+v, %v", h, s, err)
	}
	defer h.close()

	boot, err := bootID()
	must(t, err)
	dir := t.TempDir() + "/toolguard/audit"
	own, err := openLease(r.control, dir)
	must(t, err)
	defer own.close()
	for _, c := range []struct {
		name  string
		state savedState
		ok    bool
	}{
		{"no lease", savedState{}, false},
		{"one of another boot", savedState{boot: "other"}, false},
		{"one of this boot", savedState{boot: boot}, true},
	} {
		must(t, own.writeState(c.state))
		if _, err := own.joinActive(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		must(t, flock(own.users, unix.LOCK_UN))
	}
	other, err := openLease(r.control, dir)
	must(t, err)
	defer other.close()
	must(t, flock(other.users, unix.LOCK_EX))
	if _, err := own.joinActive(); err == nil {
		t.Error("joined while the last lease ends")
	}
}

func TestStateFolderIsRootOnly(t *testing.T) {
	childtest.NeedsRoot(t)
	base := t.TempDir()
	for name, prepare := range map[string]func(string) error{
		"another user's": func(p string) error { os.Mkdir(p, 0o700); return os.Chown(p, 65534, 65534) },
		"writable":       func(p string) error { os.Mkdir(p, 0o700); return os.Chmod(p, 0o770) },
		"a symlink":      func(p string) error { return os.Symlink(base, p) },
		"a file":         func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		parent := filepath.Join(base, name)
		must(t, prepare(parent))
		if fd, err := openStateFolder(parent + "/audit"); err == nil {
			unix.Close(fd)
			t.Errorf("%s was accepted", name)
		}
	}
	fd, err := openStateFolder(base + "/good/audit")
	must(t, err)
	unix.Close(fd)
}

// TestFreshSessionIsPerThread checks that other threads of the process keep their audit session.
func TestFreshSessionIsPerThread(t *testing.T) {
	reader(t)
	runtime.LockOSThread() // so that no goroutine below gets this thread
	defer runtime.UnlockOSThread()
	const sessionid = "/proc/thread-self/sessionid"
	mine, err := readNumber(sessionid)
	must(t, err)
	got := make(chan uint32)
	for range 2 {
		go func() {
			runtime.LockOSThread()
			id, err := FreshSession()
			if err != nil {
				t.Error(err)
			}
			got <- id
		}()
	}
	a, b := <-got, <-got
	after, err := readNumber(sessionid)
	if a == b || a == NoSession || b == NoSession || after != mine || err != nil {
		t.Errorf("%d and %d, this thread %d then %d, %v", a, b, mine, after, err)
	}
}

func TestOpenNamesMissingCapability(t *testing.T) {
	if os.Getuid() != 0 {
		_, err := Open()
		if err == nil || !strings.Contains(err.Error(), "CAP_AUDIT") {
			t.Errorf("%v", err)
		}
		return
	}
	done := make(chan error)
	go func() { // this thread alone loses the capability, and ends
		runtime.LockOSThread()
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			t.Error(err)
		}
		_, err := Open()
		done <- err
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "CAP_AUDIT_") {
		t.Errorf("%v", err)
	}
}
