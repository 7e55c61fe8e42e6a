package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// compiled is a policy that allows reading and executing the files of a folder.
func compiled(t *testing.T, folder string) *policy.Compiled {
	t.Helper()
	return nettest.Policy(t, policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: folder, Caps: policy.Read | policy.Execute}}})
}

// No thread enters a nested session whose outer session has ended, or whose policy isn't restricted by the outer session's current policy.
func TestCheckNested(t *testing.T) {
	around, other := compiled(t, "/etc"), compiled(t, "/usr")
	c, err := compiled(t, "/etc/ssl").Within(around)
	childtest.Must(t, err)
	for _, x := range []struct {
		from   uint64
		state  api.State
		policy *policy.Compiled
		status int
	}{
		{0, api.Running, other, 0}, // not nested
		{1, api.Running, around, 0},
		{1, api.Left, around, 0},
		{1, api.Running, other, 409},
		{1, api.Ending, around, 409},
		{2, api.Running, around, 404},
	} {
		d := &Daemon{sessions: map[uint64]*session{}}
		in := func(state api.State, c *policy.Compiled) *session {
			p := policiesOf(c)
			t.Cleanup(func() { runtime.KeepAlive(p) }) // it isn't in a file
			return &session{d: d, state: state, recent: weak.Make(p)}
		}
		d.sessions[1] = in(x.state, x.policy)
		inner := in(api.Starting, c)
		inner.from = x.from
		if err := d.checkNested(x.from, c); rejectionOf(err) != x.status || (err == nil) != (x.status == 0) {
			t.Errorf("%+v: %v", x, err)
		}
		if x.status == 0 {
			continue
		}
		if err := inner.expectThread(7); rejectionOf(err) != x.status || inner.record.Thread != 0 {
			t.Errorf("%+v: entered: %v", x, err)
		}
	}
}

// Listing sessions doesn't wait for a change of one, however long that takes.
func TestListWhileBusy(t *testing.T) {
	d, c := served(t, DefaultLimits)
	s := &session{d: d, id: "0000000000000001", over: make(chan struct{}), state: api.Running, record: record{Info: api.Session{ID: "0000000000000001"}}}
	close(s.over) // there is nothing in the kernel
	d.sessions[1] = s
	s.changing.Lock()
	defer s.changing.Unlock()
	var list []api.Session
	if err := c.Do("GET", api.Sessions, nil, &list); err != nil || len(list) != 1 || list[0].State != api.Running {
		t.Errorf("%+v, %v", list, err)
	}
	var one api.Session
	if err := c.Do("GET", api.Sessions+"/"+s.id, nil, &one); err != nil || one.ID != s.id {
		t.Errorf("%+v, %v", one, err)
	}
}

// A session is ended if its client never confirms that its thread is in it.
func TestEntering(t *testing.T) {
	for state, ends := range map[api.State]bool{api.Starting: true, api.Running: false} {
		synctest.Test(t, func(t *testing.T) {
			d := &Daemon{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
			s := d.newSession(&record{Info: api.Session{State: state, Started: time.Now()}}, proc.Ended(1))
			defer s.events.Close()
			s.endUnlessConfirmed()
			for _, want := range []bool{false, ends} {
				time.Sleep(entering - time.Second)
				synctest.Wait()
				if over := isClosed(s.killed); over != want {
					t.Errorf("%s, after %v: ended %v", state, time.Since(s.began), over)
				}
			}
		})
	}
}

// The end of a session waits for a change that is being made. Later changes are rejected.
func TestEndingSessionIsUnchanged(t *testing.T) {
	s := &session{state: api.Ending, denials: &denials.Follower{}}
	if err := s.expectThread(7); err == nil {
		t.Error("a thread enters a session that ends")
	}
	if err := s.addCommand(os.Getpid()); err == nil {
		t.Error("a command joins a session that ends")
	}
	s.record.Thread = 7
	if err := s.confirmThread(); err == nil {
		t.Error("an ending session is running again")
	}
	s.changing.Lock()
	blocked := make(chan bool)
	go func() {
		s.blockEntry()
		close(blocked)
	}()
	select {
	case <-blocked:
		t.Error("a session ends while it is being changed")
	case <-time.After(50 * time.Millisecond):
	}
	s.changing.Unlock()
	<-blocked
}

// An expected thread never enters a session that has ended meanwhile: its denials would go unreported.
func TestNoThreadEntersEndingSession(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	thread, blocked, done := make(chan int), make(chan bool), make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		thread <- unix.Gettid()
		<-blocked
		_, err := os.ReadDir(image.Canary)
		done <- err
	}()
	s := inKernel(t, d, <-thread)
	childtest.Must(t, s.kernel.ExpectThread(s.thread(), 0))
	s.blockEntry()
	close(blocked)
	if err := <-done; err != nil {
		t.Errorf("the thread entered the session: %v", err)
	}
	if _, err := s.kernel.End(); err != nil {
		t.Error(err)
	}
}

// A process outside the session that reused the PID of one that was moved into the session's cgroup is moved out. The session's own stay.
func TestExpel(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	s := inKernel(t, d, 0)
	g, err := managed.New(fmt.Sprintf("test-%d-%x", os.Getpid(), s.number), policy.Limits{}, cgroup.Probe())
	childtest.Must(t, err)
	s.group.Store(g)
	d.sessions[s.number] = s
	where := func(pid int) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	in, out, err := os.Pipe()
	childtest.Must(t, err)
	defer in.Close()
	own := s.starts(t, "/bin/cat", in)
	other := exec.Command("cat")
	other.Stdin = in
	childtest.Must(t, other.Start())
	for _, pid := range []int{own, other.Process.Pid} {
		childtest.Must(t, g.Add(pid))
	}
	if where(own) != where(other.Process.Pid) || where(own) == where(os.Getpid()) {
		t.Fatal("they aren't in the cgroup")
	}
	if err := s.expel(g); err != nil {
		t.Error(err)
	}
	if got := where(other.Process.Pid); got != where(os.Getpid()) {
		t.Errorf("the process outside the session is in %s", got)
	}
	if got, err := g.Processes(); err != nil || len(got) != 1 || got[0] != own {
		t.Errorf("the session's cgroup has %d, %v, want %d", got, err, own)
	}
	_ = out.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := unix.Wait4(own, nil, 0, nil); err != nil {
		t.Error(err)
	}
	if _, err := s.kernel.End(); err != nil {
		t.Error(err)
	}
	s.endGroup()
}

// inKernel is a session in the kernel without a process. A thread of this process may be expected to enter it.
func inKernel(t *testing.T, d *Daemon, thread int) *session {
	t.Helper()
	if d.kernel == nil {
		t.Skipf("needs a kernel that takes LSM programs: %s", d.unavailable)
	}
	client, err := proc.Open(os.Getpid(), 0)
	childtest.Must(t, err)
	s := d.newSession(&record{Number: newNumber(), Thread: thread, Generation: 1}, client)
	img, err := image.New(compiled(t, "/"), api.FirstGeneration)
	childtest.Must(t, err)
	if s.kernel, err = d.kernel.Begin(s.number, img, 0); err != nil {
		t.Fatal(err)
	}
	return s
}

// starts starts a program in the session, by a thread that ends.
func (s *session) starts(t *testing.T, program string, in *os.File) (pid int) {
	t.Helper()
	err := childtest.Thread(func() (err error) {
		if err := s.kernel.Adopt(); err != nil {
			return err
		}
		attr := &syscall.ProcAttr{}
		if in != nil {
			attr.Files = []uintptr{in.Fd(), 1, 2}
		}
		pid, err = syscall.ForkExec(program, []string{program}, attr)
		return err
	})
	childtest.Must(t, err)
	return pid
}

// A session has one command: no second one is moved into its cgroup.
func TestOneCommand(t *testing.T) {
	s := &session{id: "1", state: api.Running, over: make(chan struct{})}
	close(s.over) // there is nothing in the kernel
	s.record.Info.Command = 7
	if err := s.addCommand(os.Getpid()); err == nil || !strings.Contains(err.Error(), "has a command already") {
		t.Error(err)
	}
}

// A session whose only process is a zombie has ended, and counts in its user's quota until the kernel has freed it.
func TestUnwaited(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	s := inKernel(t, d, 0)
	pid := s.starts(t, "/bin/true", nil)
	childtest.Must(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	leaving := func() usage {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.leaving[s.quotaKey()]
	}
	s.dropped()
	done := make(chan struct{})
	go func() {
		s.supervise()
		close(done)
	}()
	<-s.over
	if n := s.kernel.Counts().Tasks; n != 1 || leaving().sessions != 1 {
		t.Errorf("the kernel has %d tasks, want 1, or the session doesn't count in the quota: %+v", n, leaving())
	}
	if _, err := d.kernel.Resume(s.number); !errors.Is(err, loader.ErrEnded) {
		t.Errorf("taken over: %v", err)
	}
	time.Sleep(100 * time.Millisecond)
	if isClosed(done) {
		t.Error("the session isn't supervised until the kernel has freed it")
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	<-done
	if leaving() != (usage{}) {
		t.Errorf("%+v is reserved for a session that was freed", leaving())
	}
	if _, err := d.kernel.Resume(s.number); !errors.Is(err, loader.ErrEnded) {
		t.Errorf("taken over after it was freed: %v", err)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
