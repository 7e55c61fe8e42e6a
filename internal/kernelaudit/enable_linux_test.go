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
)

// holdUntilKilled says when it has a reader, and keeps it.
func holdUntilKilled() error {
	r, err := Open()
	if err != nil {
		return err
	}
	r.Listen() // or nothing would be waited for, which the runtime doesn't permit
	fmt.Println("open")
	select {}
}

// alone waits until nobody on the machine holds auditing, and returns its state then.
func alone(t *testing.T) status {
	t.Helper()
	reader(t).Close()
	for end := time.Now().Add(patience / 4); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s, _, free := unheld(t, time.Time{}); free {
			return s
		}
		if r, err := Open(); err == nil { // puts back what one who was killed has left
			r.Close()
		}
	}
	t.Skip("somebody else on this machine uses auditing all the time")
	return status{}
}

// unheld reads the state and whether there is a note, if nobody holds it, and nobody was killed who came since then and held it: other
// tests' processes are.
func unheld(t *testing.T, since time.Time) (s status, noted, free bool) {
	t.Helper()
	h, err := openHold(-1, stateDir)
	must(t, err)
	defer h.close()
	for end := time.Now().Add(patience); flock(h.lock, unix.LOCK_EX) != nil; { // nobody comes or goes meanwhile, or he'd see us as another user
		if time.Now().After(end) {
			t.Fatal("somebody keeps the lock")
		}
	}
	if flock(h.users, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return s, false, false
	}
	var st unix.Stat_t
	must(t, unix.Fstat(h.note, &st))
	_, err = h.read()
	noted = !errors.Is(err, fs.ErrNotExist)
	return now(t), noted, !noted || !time.Unix(st.Mtim.Unix()).After(since)
}

func now(t *testing.T) status {
	t.Helper()
	fd, err := openControl()
	must(t, err)
	defer unix.Close(fd)
	s, err := getStatus(fd)
	must(t, err)
	return s
}

func startHolder(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), actionVar+"=hold")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "open" {
		t.Fatalf("holder said %q, %v", line, err)
	}
	return cmd
}

// TestLastOneRestores also with users that are killed before and after.
func TestLastOneRestores(t *testing.T) {
	before := alone(t)
	if before.Enabled != 0 {
		t.Skip("needs a machine on which auditing is off")
	}
	first := startHolder(t)
	second, err := Open()
	must(t, err)
	if s := now(t); s.Enabled != 1 || s.BacklogLimit != wantBacklog {
		t.Errorf("while held: %+v", s)
	}
	first.Process.Kill()
	first.Wait()
	if s := now(t); s.Enabled != 1 {
		t.Errorf("after one of two was killed: %+v", s)
	}
	leave := func(r *Reader, when string) {
		t.Helper()
		since := time.Now()
		must(t, r.Close())
		s, noted, free := unheld(t, since)
		if free && (noted || s.Enabled != before.Enabled || s.BacklogLimit != before.BacklogLimit) {
			t.Errorf("after %s: %+v, before: %+v; a note stays: %v", when, s, before, noted)
		}
	}
	leave(second, "the last one")

	last := startHolder(t)
	last.Process.Kill()
	last.Wait()
	third, err := Open() // finds auditing on, but knows that it was off
	must(t, err)
	leave(third, "a crash")

	for range 20 { // at once, without a question to the kernel in between
		r, err := Open()
		must(t, err)
		leave(r, "a short one")
	}
}

// TestLeavingAtOnce holds that whoever leaves is no user any more when the next one looks, although it still has the files.
func TestLeavingAtOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir() + "/toolguard/audit"
	var holds [3]*hold
	for i := range holds {
		var err error
		if holds[i], err = openHold(-1, dir); err != nil {
			t.Fatal(err)
		}
		defer holds[i].close()
	}
	as := status{Enabled: 1, BacklogLimit: 64} // as it was found: there is nothing to tell the kernel
	must(t, holds[0].put(found{"this", as.Enabled, as.BacklogLimit}))
	for _, h := range holds[:2] {
		must(t, flock(h.users, unix.LOCK_SH))
	}
	for i, h := range holds[:2] {
		must(t, h.leave(&as))
		if f, err := h.read(); (err == nil) != (i == 0) {
			t.Errorf("after %d left: %+v, %v", i+1, f, err)
		}
	}
	if err := flock(holds[2].users, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the next one isn't the first: %v", err)
	}
}

// TestJoinWaitsForNobody: where others hold auditing, the lock of all changes isn't needed. Without a user, after the last one
// has left, and where something has to be changed, it is.
func TestJoinWaitsForNobody(t *testing.T) {
	r := reader(t)
	defer r.Close()
	if r.hold == nil {
		t.Skip("auditing is not toolguard's here")
	}
	must(t, flock(r.hold.lock, unix.LOCK_EX))
	defer flock(r.hold.lock, unix.LOCK_UN)
	h, s, err := holdAudit(r.control, stateDir)
	if err != nil || h == nil || s.Enabled != 1 {
		t.Fatalf("joining: %v, %+v, %v", h, s, err)
	}
	defer h.close()

	boot, err := bootID()
	must(t, err)
	dir := t.TempDir() + "/toolguard/audit"
	own, err := openHold(r.control, dir)
	must(t, err)
	defer own.close()
	for _, c := range []struct {
		name string
		note found
		ok   bool
	}{
		{"no user", found{}, false},
		{"one of another boot", found{boot: "other"}, false},
		{"one of this boot", found{boot: boot}, true},
	} {
		must(t, own.put(c.note))
		if _, err := own.join(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		must(t, flock(own.users, unix.LOCK_UN))
	}
	other, err := openHold(r.control, dir)
	must(t, err)
	defer other.close()
	must(t, flock(other.users, unix.LOCK_EX))
	if _, err := own.join(); err == nil {
		t.Error("joined while the last user leaves")
	}
}

func TestStateFolderIsOurs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	base := t.TempDir()
	for name, prepare := range map[string]func(string) error{
		"another user's": func(p string) error { os.Mkdir(p, 0o700); return os.Chown(p, 65534, 65534) },
		"writable":       func(p string) error { os.Mkdir(p, 0o700); return os.Chmod(p, 0o770) },
		"a symlink":      func(p string) error { return os.Symlink(base, p) },
		"a file":         func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		parent := filepath.Join(base, name)
		must(t, prepare(parent))
		if fd, err := openState(parent + "/audit"); err == nil {
			unix.Close(fd)
			t.Errorf("%s was accepted", name)
		}
	}
	fd, err := openState(base + "/good/audit")
	must(t, err)
	unix.Close(fd)
}

// TestFreshSessionIsTheThreads: other threads of the process keep what they have.
func TestFreshSessionIsTheThreads(t *testing.T) {
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

func TestOpenSaysWhatIsMissing(t *testing.T) {
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
