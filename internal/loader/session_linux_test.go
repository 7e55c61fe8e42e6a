package loader

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
)

// A session has its own counts, and none when its slot is free or another session's.
func TestCountsAfterReuse(t *testing.T) {
	for id, want := range map[uint64]Counts{7: {1, 7, 2, 3, 4, 5, 6}, 0: {}, 8: {}} {
		s := &Session{id: 7, at: &kernelSession{Id: id, Tasks: 1, Sequence: 2, Denied: 3, Suppressed: 4, Lost: 5, Unrecorded: 6, Living: 7}}
		if got := s.Counts(); got != want {
			t.Errorf("in a slot of session %d: %+v", id, got)
		}
	}
}

// An exited task isn't living, although it exists until it's reaped.
func TestLiving(t *testing.T) {
	k := kernel(t)
	s, _ := begin(t, k, "/ read+execute")
	defer func() {
		if _, err := s.End(); err != nil {
			t.Error(err)
		}
	}()
	has := func(when string, tasks, living int) {
		t.Helper()
		if c := s.Counts(); c.Tasks != tasks || c.Living != living {
			t.Errorf("%s: %d tasks, of which %d live, and not %d and %d", when, c.Tasks, c.Living, tasks, living)
		}
	}
	gone := func(tasks int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); s.Counts().Tasks != tasks && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		}
	}
	has("before", 0, 0)
	confined(t, s, func() {
		in, out, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		pid, err := syscall.ForkExec("/bin/cat", []string{"cat"}, &syscall.ProcAttr{Files: []uintptr{in.Fd(), 1, 2}})
		_ = in.Close()
		if err != nil {
			t.Error(err)
			return
		}
		has("while it runs", 2, 2)
		_ = out.Close()
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Error(err)
		}
		has("when it has exited", 2, 1)
		if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
		gone(1)
		has("when it has been waited for", 1, 1)
	})
	gone(0)
	has("at the end", 0, 0)
}

// A thread that exits before it has done anything since it was to enter a session within its own never enters it: it has been counted out. What
// it does last is to have the kernel signal its child, about which a program is asked.
func TestNoEntryDuringExit(t *testing.T) {
	k := kernel(t)
	outer, _ := begin(t, k, "/ read+execute")
	inner, _ := begin(t, k, "/ read")
	thread, leave, left := make(chan Thread), &atomic.Bool{}, make(chan error, 1)
	var child int
	go func() {
		left <- childtest.Thread(func() error {
			if err := outer.Adopt(); err != nil {
				return err
			}
			pid, _, err := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if pid == 0 && err == 0 { // a copy of this thread alone, in which the runtime can do nothing
				unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCHLD), 0, 0, 0, 0)
				for {
					unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
				}
			}
			if err != 0 {
				return err
			}
			child = int(pid)
			time.Sleep(200 * time.Millisecond) // until it has asked for the signal
			thread <- Thread{os.Getpid(), unix.Gettid()}
			for !leave.Load() { // without a call
			}
			return nil
		})
	}()
	must(t, inner.ExpectThread(<-thread, outer.id))
	leave.Store(true)
	must(t, <-left)
	for deadline := time.Now().Add(time.Minute); outer.Counts().Tasks != 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if c := outer.Counts(); c.Tasks != 1 || c.Living != 1 {
		t.Errorf("of the one that lives there are %d tasks, and %d live", c.Tasks, c.Living)
	}
	if c := inner.Counts(); c.Tasks != 0 || c.Living != 0 {
		t.Errorf("it has entered: %d tasks, %d live", c.Tasks, c.Living)
	}
	must(t, unix.Kill(child, unix.SIGKILL))
	if _, err := unix.Wait4(child, nil, 0, nil); err != nil {
		t.Error(err)
	}
	for _, s := range []*Session{inner, outer} {
		if _, err := s.End(); err != nil {
			t.Error(err)
		}
	}
}

// may reports whether a file could be read, and fails the test on any other error than a denial.
func may(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	return err == nil
}

func TestSession(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "granted/file", "granted/secret/file", "granted/deep/.env", "other")
	s, c := begin(t, k, dir+"/granted read", dir+"/granted/secret none", "/**/.env none")
	var h *collected
	confined(t, s, func() {
		h = listen(s)
		for name, want := range map[string]bool{
			"granted/file": true, "granted/secret/file": false, "granted/deep/.env": false, "other": false,
		} {
			if got := may(t, dir+"/"+name); got != want {
				t.Errorf("may read %s: %v, want %v", name, got, want)
			}
		}
		if pid, err := syscall.ForkExec("/usr/bin/true", []string{"true"}, nil); !errors.Is(err, syscall.EACCES) {
			t.Errorf("executed a program that isn't granted: %d, %v", pid, err)
		}
	})
	if !may(t, dir+"/other") {
		t.Error("the test itself isn't in the session, and may not read")
	}
	counts, err := s.End()
	must(t, err)
	lines := h.lines(c)
	if counts.Denied != uint64(len(lines)) || counts.Lost+counts.Suppressed != 0 {
		t.Errorf("%d events of %+v", len(lines), counts)
	}
	for _, want := range []string{
		"open rule " + dir + "/granted/secret/file needs read has none: fs.2",
		"open rule " + dir + "/granted/deep/.env needs read has none: fs.3",
		"open rule " + dir + "/other needs read has none: no rule",
		"execute rule /usr/bin/true needs execute has none: no rule",
	} {
		if !slices.ContainsFunc(lines, func(l string) bool { _, l, _ = strings.Cut(l, " "); return l == want }) {
			t.Errorf("no event %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}

// A new image decides about a session's next operation.
func TestReload(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	s, _ := begin(t, k)
	first := s.at.Image
	confined(t, s, func() {
		if may(t, dir+"/file") {
			t.Error("may read what nothing grants")
		}
		for round := range uint32(20) {
			granted := round%2 == 0
			rules := []string{dir + " none"}
			if granted {
				rules = []string{dir + " read", dir + "/padding read"} // of another size
			}
			must(t, reload(t, s, 2+round, rules...))
			if may(t, dir+"/file") != granted {
				t.Fatalf("round %d: a reload has no effect", round)
			}
		}
	})
	if at := max(s.at.Image, s.at.FormerImage); at > first+4*max(s.at.Lines, s.at.FormerLines) {
		t.Errorf("the images were at line %d, and after 20 reloads at line %d", first, at)
	}
	if _, err := s.End(); err != nil {
		t.Fatal(err)
	}
}

// A reload finds the lines of an ended session when its unreaped tasks are gone.
func TestReloadFindsFreeLines(t *testing.T) {
	k := kernel(t)
	over, _ := begin(t, k, "/ read+execute")
	var pid int
	confined(t, over, func() {
		var err error
		if pid, err = syscall.ForkExec("/bin/true", []string{"true"}, nil); err != nil {
			t.Error(err)
		}
	})
	must(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	s, _ := begin(t, k)
	end(t, over)
	place := over.at
	if err := reload(t, s, 2, "/ read"); err != nil || place.Id != over.id {
		t.Errorf("%v; the place of a session with a task is %x's, and not %x's", err, place.Id, over.id)
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); atomic.LoadUint32(&place.Tasks) != 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if err := reload(t, s, 3, "/ read"); err != nil || place.Id != 0 {
		t.Errorf("%v; the place is %x's still", err, place.Id)
	}
	end(t, s)
}

// A denial without a path has the current generation, not that of the task's last path.
func TestGenerations(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	s, _ := begin(t, k)
	var h *collected
	confined(t, s, func() {
		h = listen(s)
		if may(t, dir+"/file") {
			t.Error("may read what nothing grants")
		}
		if err := reload(t, s, 2, dir+" read"); err != nil {
			t.Error(err)
		}
		if _, _, e := unix.Syscall(unix.SYS_BPF, 0, 0, 0); e != unix.EPERM {
			t.Errorf("bpf: %v", e)
		}
	})
	if g, err := s.Generation(); g != 2 || err != nil {
		t.Errorf("generation %d, %v", g, err)
	}
	end(t, s)
	if len(h.events) != 2 || h.events[0].Generation != 1 || h.events[1].Op != OpKernel || h.events[1].Generation != 2 {
		t.Errorf("%+v", h.events)
	}
}

func reload(t *testing.T, s *Session, generation uint32, rules ...string) error {
	img, err := image.New(compile(t, rules...), generation)
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() { done <- s.Reload(img) }() // on another thread: this one is confined
	return <-done
}

// Every denial is reported or counted, however many there are.
func TestFlood(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	s, _ := begin(t, k)
	var reported atomic.Uint64
	const n, rate = 20000, 2000 // in one second
	began := time.Now()
	confined(t, s, func() {
		s.Listen(func(Event) { reported.Add(1) })
		for range n {
			if may(t, dir+"/file") {
				t.Error("may read what nothing grants")
				return
			}
		}
	})
	c, err := s.End()
	must(t, err)
	took := time.Since(began)
	t.Logf("%d reported of %+v, in %v", reported.Load(), c, took)
	if c.Denied != n || reported.Load()+c.Suppressed+c.Lost != n || reported.Load() == 0 || float64(reported.Load()) > rate*(took.Seconds()+2) {
		t.Errorf("%d denials in %v, %d reported, of %+v", n, took, reported.Load(), c)
	}
}
