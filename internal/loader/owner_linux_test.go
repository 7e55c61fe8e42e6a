package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
)

// A session's denials are reported also if other sessions begin as it ends and acquire its ring, and if Listen begins only then.
func TestEndsWhileOthersBegin(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	img, err := image.New(compile(t), 1)
	must(t, err)
	once := func() error {
		s, err := k.Begin(newID(), img, 0)
		if err != nil {
			return err
		}
		var read error
		err = runInside(s, func() { _, read = os.ReadFile(dir + "/file") })
		reported := 0
		s.Listen(func(Event) { reported++ })
		c, ended := s.End()
		if err = errors.Join(err, ended); err == nil && (!errors.Is(read, fs.ErrPermission) || reported != 1 || c.Denied != 1 || c.Lost != 0) {
			err = fmt.Errorf("%d events of one denial (%v): %+v", reported, read, c)
		}
		return err
	}
	errs := make(chan error)
	const at, times = 4, 50
	for range at {
		go func() {
			var err error
			for range times {
				err = errors.Join(err, once())
			}
			errs <- err
		}()
	}
	for range at {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Sessions have nothing in common.
func TestSessionsAtOnce(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "0", "1", "2")
	names := []string{"0", "1", "2"}
	var sessions []*Session
	var all []*collected
	for _, name := range names {
		s, _ := begin(t, k, dir+"/"+name+" read")
		sessions = append(sessions, s)
	}
	for i, s := range sessions {
		confined(t, s, func() {
			all = append(all, listen(s))
			for j, name := range names {
				if may(t, dir+"/"+name) != (i == j) {
					t.Errorf("session %d and file %s", i, name)
				}
			}
		})
	}
	for i, s := range sessions {
		if _, err := s.End(); err != nil {
			t.Error(err)
		}
		if len(all[i].events) != 2 {
			t.Errorf("session %d: %d events", i, len(all[i].events))
		}
	}
}

// A session continues when its toolguard is killed, and its slot is freed when it has ended.
func TestOwnerKilled(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	cmd := childtest.Command(t, 0, []string{"own a session", dir})
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 100)
	n, _ := out.Read(line)
	if got := string(line[:n]); got != "denied\n" {
		t.Fatalf("the child's session: %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	must(t, os.WriteFile(dir+"/killed", nil, 0o644))
	slot := slices.IndexFunc(k.sessions, func(s kernelSession) bool { return s.Id == ownedID })
	if slot < 0 {
		t.Fatal("the session is gone")
	}
	if got := readFile(t, dir+"/answer", "allowed", "denied"); got != "denied" {
		t.Errorf("after its toolguard was killed the session was %s the file", got)
	}
	s, _ := begin(t, k) // uses no lines of the other session
	if s.slot == slot {
		t.Error("its slot was reused")
	}
	must(t, os.WriteFile(dir+"/stop", nil, 0o644))
	for deadline := time.Now().Add(time.Minute); atomic.LoadUint32(&k.sessions[slot].Tasks) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks remain", k.sessions[slot].Tasks)
		}
	}
	other, _ := begin(t, k)
	if other.slot > slot {
		t.Errorf("the slot isn't free again: %d after %d", other.slot, slot)
	}
	for _, s := range []*Session{s, other} {
		if _, err := s.End(); err != nil {
			t.Error(err)
		}
	}
}

const ownedID = 0x70617373

// readFile waits until a file has one of the contents.
func readFile(t *testing.T, path string, contents ...string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(path); err == nil && slices.Contains(contents, string(b)) {
			return string(b)
		}
	}
	t.Fatalf("%s: no answer", path)
	return ""
}

// ownSession begins a session with a shell that outlives this process, and returns the shell's output.
func ownSession(args []string) (any, error) {
	dir := args[0]
	k, err := Open(nil)
	if err != nil {
		return nil, err
	}
	c, err := tryCompile("/usr read+execute", "/bin read+execute", "/lib read+execute", "/lib64 read+execute", "/etc read",
		"/dev read+update", dir+" read+create+update", dir+"/file none")
	if err != nil {
		return nil, err
	}
	img, err := image.New(c, 1)
	if err != nil {
		return nil, err
	}
	s, err := k.Begin(ownedID, img, 0)
	if err != nil {
		return nil, err
	}
	const script = `try() { if cat file >/dev/null 2>&1; then echo allowed; else echo denied; fi; }
		try; while ! [ -e killed ]; do sleep 0.01; done
		printf %s $(try) >answer.new; cat answer.new >answer; while ! [ -e stop ]; do sleep 0.01; done`
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if err := runInside(s, func() { err = cmd.Start() }); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return nil, cmd.Wait()
}

// Many toolguards start at once, where nothing has been loaded yet.
func TestManyAtOnce(t *testing.T) {
	k := kernel(t)
	waitFree(t, k)
	if n, err := remove(versionFolder); n > 0 || err != nil {
		t.Fatal(n, err)
	}
	dir := scene(t, "granted", "file")
	const children = 4
	errs := make(chan error)
	for range children {
		cmd := childtest.Command(t, 0, []string{"start sessions", dir, "10"})
		go func() { errs <- cmd.Run() }()
	}
	for range children {
		must(t, <-errs)
	}
	k, err := Open(nil)
	must(t, err)
	defer k.Close()
	if *k.starting != 0 {
		t.Error("every task of the machine still looks whether it's to be adopted")
	}
	waitFree(t, k)
}

// waitFree waits until no session has a living task.
func waitFree(t *testing.T, k *Kernel) {
	t.Helper()
	busy := func(s kernelSession) bool { return s.Id != 0 && s.Tasks != 0 }
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(k.sessions, busy); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("sessions don't end")
		}
	}
}

func startSessions(args []string) (any, error) {
	k, err := Open(nil)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	n, err := strconv.Atoi(args[1])
	for range n {
		if err == nil {
			err = startSession(k, args[0])
		}
	}
	return nil, err
}

func startSession(k *Kernel, dir string) error {
	c, err := tryCompile(dir + "/granted read")
	if err != nil {
		return err
	}
	img, err := image.New(c, 1)
	if err != nil {
		return err
	}
	s, err := k.Begin(newID(), img, 0)
	if err != nil {
		return err
	}
	var granted, not error
	err = runInside(s, func() {
		_, granted = os.ReadFile(dir + "/granted")
		_, not = os.ReadFile(dir + "/file")
	})
	if granted != nil || !errors.Is(not, fs.ErrPermission) {
		err = fmt.Errorf("granted: %w, not granted: %w", granted, not)
	}
	_, ended := s.End()
	return errors.Join(err, ended)
}
