package loader

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
)

// A thread without no_new_privs is added to no session: a user's policy would confine a process with more privileges than the user.
func TestNeedsNoNewPrivs(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "a")
	s, _ := begin(t, k, dir+"/a read")
	defer end(t, s)
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		answer <- s.Adopt()
	}()
	if err := <-answer; !errors.Is(err, errUnconfined) {
		t.Errorf("it was added: %v", err)
	}
	confined(t, s, func() {
		if may(t, dir) {
			t.Error("a thread with no_new_privs isn't confined")
		}
	})
}

// A thread of a session is added to another one only if ExpectThread named the first.
func TestNestedSession(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "both", "outer")
	outer, _ := begin(t, k, dir+"/both read", dir+"/outer read")
	inner, _ := begin(t, k, dir+"/both read")
	defer end(t, outer, inner)
	for _, x := range []struct {
		before *Session
		from   uint64
		moves  bool
	}{{nil, 0, true}, {outer, outer.id, true}, {outer, 0, false}, {nil, outer.id, false}, {outer, inner.id, false}} {
		if got := moved(t, x.before, inner, x.from, dir); got != x.moves {
			t.Errorf("confined before: %v; expected from session %x: added to the inner one %v", x.before != nil, x.from, got)
		}
	}
}

// moved reports whether a thread in before (nil: in none) is added to s.
func moved(t *testing.T, before, s *Session, from uint64, dir string) bool {
	t.Helper()
	ready, expected, answer := make(chan Thread), make(chan error), make(chan bool)
	go childtest.Thread(func() error {
		if before != nil {
			if err := before.Adopt(); err != nil {
				t.Error(err)
			}
		}
		ready <- Thread{os.Getpid(), unix.Gettid()}
		if err := <-expected; err != nil {
			t.Error(err)
		}
		if !may(t, dir+"/both") {
			t.Error("may not read what every session grants")
		}
		answer <- !may(t, dir+"/outer")
		return nil
	})
	thread := <-ready
	expected <- s.ExpectThread(thread, from)
	got := <-answer
	must(t, s.ConfirmThread(thread))
	return got
}

// Denials of a thread before ConfirmThread are reported, except the canary's.
func TestDenialsBeforeConfirm(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "before", "after")
	for _, x := range []struct{ before, reported []string }{
		{[]string{image.Canary}, []string{"1 " + dir + "/after"}},
		{[]string{image.Canary, image.Canary}, []string{"2 " + dir + "/after"}},
		{[]string{image.Canary, dir + "/before"}, []string{"2 " + dir + "/before", "3 " + dir + "/after"}},
		{[]string{dir + "/before", image.Canary}, []string{"1 " + dir + "/before", "2 " + image.Canary, "3 " + dir + "/after"}},
	} {
		s, _ := begin(t, k)
		must(t, openBeforeConfirm(s, x.before, dir+"/after"))
		h := listen(s)
		counts, err := s.End()
		must(t, err)
		var reported []string
		for _, e := range h.events {
			reported = append(reported, fmt.Sprintf("%d %s", e.Sequence, e.Paths[0].Path))
		}
		if !slices.Equal(reported, x.reported) || counts.Denied != uint64(len(reported)) {
			t.Errorf("%q and then ConfirmThread: %q are reported, of %+v; want %q", x.before, reported, counts, x.reported)
		}
	}
}

// openBeforeConfirm adds a thread to s that tries to open files before ConfirmThread, and one after.
func openBeforeConfirm(s *Session, before []string, after string) error {
	ready, expected, tried, settled, done := make(chan Thread), make(chan error), make(chan bool), make(chan error), make(chan bool)
	go childtest.Thread(func() error {
		defer close(done)
		ready <- Thread{os.Getpid(), unix.Gettid()}
		<-expected
		for _, file := range before {
			_, _ = os.ReadFile(file)
		}
		close(tried)
		<-settled
		_, _ = os.ReadFile(after)
		return nil
	})
	thread := <-ready
	err := s.ExpectThread(thread, 0)
	close(expected)
	<-tried
	err = errors.Join(err, s.ConfirmThread(thread))
	close(settled)
	<-done
	return err
}

// A thread that isn't in a session at CancelThread is never added.
func TestCancelThread(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	s, _ := begin(t, k)
	defer end(t, s)
	ready, shut, done := make(chan Thread), make(chan bool), make(chan bool)
	go childtest.Thread(func() error {
		defer close(done)
		ready <- Thread{os.Getpid(), unix.Gettid()}
		<-shut
		if !may(t, dir+"/file") {
			t.Error("it came into the session")
		}
		return nil
	})
	thread := <-ready
	must(t, errors.Join(s.ExpectThread(thread, 0), s.CancelThread(thread)))
	close(shut)
	<-done
}

// No thread is added to an ended session: neither the expected one, nor a later one with the same number.
func TestEndedBeforeAdoption(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "both", "outer")
	outer, _ := begin(t, k, dir+"/both read", dir+"/outer read")
	defer end(t, outer)
	confined(t, outer, func() {
		thread, ended := Thread{os.Getpid(), unix.Gettid()}, make(chan bool)
		go func() { // on another thread: this one is confined
			inner, _ := begin(t, k, dir+"/both read")
			if err := inner.ExpectThread(thread, outer.id); err != nil {
				t.Error(err)
			}
			inner.at.Tasks++ // it can't be ended in order: it looks as if its toolguard had died
			end(t, inner)
			free(inner.at)
			close(ended)
		}()
		<-ended
		if !may(t, dir+"/both") || !may(t, dir+"/outer") {
			t.Error("it came into the session")
		}
	})
	inner, _ := begin(t, k)
	must(t, inner.ExpectThread(Thread{1, 2}, 0))
	end(t, inner)
	if *k.starting != 0 {
		t.Error("every task of the machine still looks whether it's to be adopted")
	}
}

// The remaining tasks of an ended session can't fork.
func TestEndedSessionForks(t *testing.T) {
	s, _ := begin(t, kernel(t))
	defer end(t, s)
	confined(t, s, func() {
		for _, id := range []uint64{s.id, 0} {
			s.at.Id = id
			pid, _, err := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if pid == 0 && err == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			s.at.Id = s.id
			if err == 0 {
				_, _ = unix.Wait4(int(pid), nil, 0, nil)
			}
			if made := err == 0; made != (id != 0) {
				t.Errorf("session %x: %v", id, err)
			}
		}
	})
}
