package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy/fspath"
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

// A rule about a file applies under all of its hard links, on file systems that number their files differently, and only as
// long as the rule does.
func TestHardLinks(t *testing.T) {
	k := kernel(t)
	for _, place := range []string{"/tmp", "/var/tmp", "/mnt/tmpfs", "/mnt/btrfs"} {
		if _, err := os.Stat(place); err != nil {
			continue
		}
		_ = exec.Command("mount", place).Run() // by fstab, where it isn't
		t.Run(place, func(t *testing.T) { hardLinks(t, k, place) })
	}
}

func hardLinks(t *testing.T, k *Kernel, place string) {
	dir, err := os.MkdirTemp(place, "links-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	in := func(name string) string { return filepath.Join(dir, name) }
	err = errors.Join(os.Mkdir(in("all"), 0o755), os.WriteFile(in("file"), nil, 0o644), os.Link(in("file"), in("all/link")),
		os.WriteFile(in("all/other"), nil, 0o644), os.WriteFile(in("all/another"), nil, 0o644))
	must(t, err)
	images := make([]*image.Image, 2)
	for i, caps := range []string{"read", "read+update+delete"} {
		images[i] = mountedImage(t, in("all")+" read+create+update+delete", in("file")+" "+caps)
	}
	s, err := k.Begin(newID(), images[0], 0)
	must(t, err)
	write := func(name string) error {
		f, err := os.OpenFile(in(name), os.O_WRONLY, 0)
		return errors.Join(err, f.Close())
	}
	confined(t, s, func() {
		for name, err := range map[string]error{
			"written":         write("all/link"),
			"renamed":         os.Rename(in("all/link"), in("all/renamed")),
			"renamed over":    os.Rename(in("all/other"), in("all/link")),
			"removed":         os.Remove(in("all/link")),
			"written, linked": errors.Join(os.Link(in("all/link"), in("all/third")), write("all/third")),
		} {
			if !errors.Is(err, unix.EACCES) {
				t.Errorf("a file that may only be read was %s by another name: %v", name, err)
			}
		}
		if !may(t, in("all/link")) || !may(t, in("all/third")) {
			t.Error("a readable file can't be read by another name")
		}
		if err := write("all/another"); err != nil {
			t.Errorf("another file: %v", err)
		}
		done := make(chan error)
		go func() { done <- s.Reload(images[1]) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := write("all/link"); err != nil {
			t.Errorf("when the rule grants update: %v", err)
		}
	})
	if _, err := s.End(); err != nil {
		t.Fatal(err)
	}
}

// mountedImage is the image of rules, compiled with this machine's mounts.
func mountedImage(t *testing.T, rules ...string) *image.Image {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	all, err := fspath.ParseMounts(string(text))
	must(t, err)
	c, err := tryCompileOn(tree{Extra: all}, rules...)
	must(t, err)
	if len(c.Links) != 1 || c.Links[0].Dev == 0 {
		t.Fatalf("the hard link isn't known: %+v", c.Links)
	}
	img, err := image.New(c, 1)
	must(t, err)
	return img
}

// Of two paths, the event is about the denied one.
func TestSecondPath(t *testing.T) {
	k := kernel(t)
	dir := scene(t, "file")
	s, _ := begin(t, k, dir+" read+create+update+delete")
	deep := beneath(t, dir, "d", 2*fspath.MaxDepth)
	var h *collected
	confined(t, s, func() {
		h = listen(s)
		if err := unix.Renameat(unix.AT_FDCWD, dir+"/file", deep, "file"); !errors.Is(err, unix.EACCES) {
			t.Errorf("renamed to where no policy is followed: %v", err)
		}
	})
	end(t, s)
	if len(h.events) != 1 {
		t.Fatalf("%+v", h.events)
	}
	e := h.events[0]
	if e.Why != WhyUnresolved || e.Walk != WalkDeep || len(e.Paths) != 2 || e.Paths[0].Path != dir+"/file" ||
		e.Paths[0].Need&^e.Paths[0].Have != 0 || e.Paths[1].Have != 0 {
		t.Errorf("%+v", e)
	}
}

// beneath makes so many folders of that name, each in the one before, and returns the last one, by which none needs a path.
func beneath(t *testing.T, dir, name string, depth int) (fd int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	for i := 0; i < depth && err == nil; i++ {
		up := fd
		if err = unix.Mkdirat(up, name, 0o755); err == nil {
			fd, err = unix.Openat(up, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		unix.Close(up)
	}
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
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
