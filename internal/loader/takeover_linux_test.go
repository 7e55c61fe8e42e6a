package loader

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/bpffs"
	"github.com/toolguard/toolguard/internal/loader/image"
)

// What toolguard locks isn't to be had by a session, whatever it may read.
func TestHidden(t *testing.T) {
	s, _ := begin(t, kernel(t), "/ read")
	defer end(t, s)
	guard := func(f func(file string)) {
		for _, dir := range image.HiddenFolders {
			if dir != bpffs.Root {
				f(dir + "/file")
			}
		}
	}
	guard(func(file string) {
		must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)))
		t.Cleanup(func() { _ = os.Remove(file) })
	})
	confined(t, s, func() {
		if !may(t, "/etc/passwd") {
			t.Error("can't read a granted file")
		}
		guard(func(file string) {
			if may(t, file) {
				t.Errorf("may read %s", file)
			}
		})
	})
}

func end(t *testing.T, sessions ...*Session) {
	for _, s := range sessions {
		if _, err := s.End(); err != nil {
			t.Error(err)
		}
	}
}

// A pidfd identifies a process's session. After DenyForks a session makes no new tasks.
func TestDenyForks(t *testing.T) {
	k := kernel(t)
	s, _ := begin(t, k, "/ read+execute+update")
	defer end(t, s)
	var shell *exec.Cmd
	confined(t, s, func() { shell = startShell(t, "read x; /usr/bin/true; echo $?") })
	for pid, want := range map[int]uint64{shell.Process.Pid: s.id, os.Getpid(): 0} {
		fd, err := unix.PidfdOpen(pid, 0)
		must(t, err)
		if id, err := k.SessionOf(fd); id != want || err != nil {
			t.Errorf("process %d is in session %x, %v; want %x", pid, id, err, want)
		}
		unix.Close(fd)
	}
	s.DenyForks()
	out, in := shell.Stdout.(*strings.Builder), shell.Stdin.(*os.File)
	_ = in.Close()
	_ = shell.Wait()
	if got := out.String(); strings.TrimSpace(got) == "0" {
		t.Errorf("a frozen session made a process: %q", got)
	}
	if exec.Command("/usr/bin/true").Run() != nil {
		t.Error("no process can fork")
	}
}

// startShell starts a shell that reads from a pipe, whose other end is its Stdin's.
func startShell(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdin, cmd.Stdout = r, &strings.Builder{}
	must(t, cmd.Start())
	cmd.Stdin = w
	return cmd
}

// A dead owner's session can be taken over, with its unreported events.
func TestResume(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	cmd := childtest.Command(t, 0, []string{"own a session", dir})
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if n, err := out.Read(make([]byte, 100)); n == 0 {
		t.Fatal(err)
	}
	if _, err := k.Resume(ownedID); err == nil || !strings.Contains(err.Error(), "another process of toolguard owns it") {
		t.Errorf("took over a session whose owner lives: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s, err := k.Resume(ownedID)
	must(t, err)
	h := listen(s)
	must(t, os.WriteFile(dir+"/killed", nil, 0o644))
	readFile(t, dir+"/answer", "denied")
	must(t, os.WriteFile(dir+"/stop", nil, 0o644))
	for deadline := time.Now().Add(time.Minute); s.Counts().Tasks != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it doesn't end")
		}
	}
	counts, err := s.End()
	must(t, err)
	var numbers []uint64
	for _, e := range h.events {
		numbers = append(numbers, e.Sequence)
	}
	if !slices.Equal(numbers, []uint64{1, 2}) || counts.Denied != 2 {
		t.Errorf("the new owner got denials %v, of %+v", numbers, counts)
	}
	if _, err := k.Resume(ownedID); !errors.Is(err, ErrEnded) {
		t.Errorf("an ended session: %v", err)
	}
}

// No process outside a session, nor another session, can connect to its sockets by their abstract names, unless its policy grants the
// network. Its own processes can, and so can a peer that it has connected to.
func TestPrivateSocketNames(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "dir/file")
	restricted, _ := begin(t, k, dir+" read+update")
	free, _ := beginWith(t, k, flagNetFree)
	denied, taken := error(unix.ECONNREFUSED), error(nil)
	listeners := map[*Session]error{nil: taken, restricted: denied, free: taken}
	for s, outside := range listeners {
		err := as(s, func() error {
			for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
				name := fmt.Sprintf("@toolguard-test-%d-%d", os.Getpid(), typ)
				l, err := listenUnix(typ, name)
				if err != nil {
					return err
				}
				for who, want := range map[*Session]error{nil: outside, restricted: unix.EACCES, free: outside} {
					if who == s {
						want = nil
					}
					for _, send := range []bool{false, true} {
						if send && typ != unix.SOCK_DGRAM {
							continue
						}
						got := as(who, func() error { return unixTo(typ, send, func(*tryState) string { return name })(nil) })
						if !errors.Is(got, want) {
							t.Errorf("%s to a socket of type %d of %s, sends at once %v: %v, want %v", sessionName(who, restricted, free), typ, sessionName(s, restricted, free), send, got, want)
						}
					}
				}
				_ = unix.Close(l)
			}
			return nil
		})
		must(t, err)
	}
	for s, want := range listeners {
		if err := toGiven(s); !errors.Is(err, want) {
			t.Errorf("to a socket that %s was given: %v, want %v", sessionName(s, restricted, free), err, want)
		}
	}
	server, err := listenUnix(unix.SOCK_DGRAM, dir+"/dgram")
	must(t, err)
	defer unix.Close(server)
	for connects, want := range map[bool]error{true: nil, false: denied} {
		if err := as(restricted, func() error { return answered(server, dir+"/dgram", connects) }); !errors.Is(err, want) {
			t.Errorf("an answer to a socket that has connected to it, %v: %v, want %v", connects, err, want)
		}
	}
	end(t, restricted, free)
}

// toGiven sends to a socket that a process outside has made and a session has bound.
func toGiven(s *Session) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	name := fmt.Sprintf("@toolguard-test-given-%d", os.Getpid())
	if err := as(s, func() error { return unix.Bind(fd, &unix.SockaddrUnix{Name: name}) }); err != nil {
		return err
	}
	return as(nil, func() error { return unixTo(unix.SOCK_DGRAM, true, func(*tryState) string { return name })(nil) })
}

// answered makes a socket outside the session answer one without a path that has written to it, connected or not.
func answered(server int, path string, connects bool) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrUnix{Name: path}
	err = unix.Bind(fd, &unix.SockaddrUnix{}) // to a name that the kernel chooses
	if err == nil && connects {
		err = unix.Connect(fd, to)
		to = nil
	}
	if err != nil {
		return err
	}
	if to == nil {
		_, err = unix.Write(fd, []byte("x"))
	} else {
		err = unix.Sendto(fd, []byte("x"), 0, to)
	}
	if err != nil {
		return err
	}
	return as(nil, func() error {
		_, from, err := unix.Recvfrom(server, make([]byte, 1), 0)
		if err != nil {
			return err
		}
		return unix.Sendto(server, []byte("y"), 0, from)
	})
}

// as does something on a thread of a session's, or on one that is in none (nil), and waits for it.
func as(s *Session, f func() error) (err error) {
	if s == nil {
		done := make(chan error)
		go func() { done <- f() }()
		return <-done
	}
	if e := runInside(s, func() { err = f() }); e != nil {
		return e
	}
	return err
}

func sessionName(s, restricted, free *Session) string {
	return map[*Session]string{nil: "an unconfined process's", restricted: "a restricted session's", free: "a free session's"}[s]
}
