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
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// compiled is a policy that allows reading and executing the files of a folder.
func compiled(t *testing.T, folder string) *policy.Compiled {
	t.Helper()
	layer := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: folder, Caps: policy.Read | policy.Execute}}}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, hostfs.Machine{})
	childtest.Must(t, err)
	return c
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
		status := 0
		if err := d.checkNested(x.from, c); err != nil {
			status = err.(*statusError).status
		}
		if status != x.status {
			t.Errorf("%+v: %d", x, status)
		}
		if x.status == 0 {
			continue
		}
		if err := inner.expectThread(7); err == nil || err.(*statusError).status != x.status || inner.record.Thread != 0 {
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

// A new policy must be for the folders that the session has had from its start: its processes may have replaced them by symlinks, which the
// compiler of the policy follows.
func TestReloadElsewhere(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	for _, x := range []struct {
		workspace, tmp string
		why            string
	}{
		{"/", "/tmp/toolguard-1", "only the policy of a running session can be changed"}, // no thread is in it
		{"/", "", "only the policy of a running session can be changed"},
		{"/root", "/tmp/toolguard-1", "has / and \"/tmp/toolguard-1\""},
		{"/", "/root", "has / and \"/tmp/toolguard-1\""},
	} {
		asked := *compiled(t, "/etc")
		asked.Workspace, asked.TmpDir = x.workspace, x.tmp
		s := &session{d: d, client: proc.Ended(1), state: api.Starting, record: record{Info: api.Session{Workspace: "/", TmpDir: "/tmp/toolguard-1"}}}
		if err := s.reload(&asked, 0); err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s and %q: %v, not %q", x.workspace, x.tmp, err, x.why)
		}
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

// A second toolguardd with the same files doesn't start.
func TestOneToolguardd(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	if _, err := New(d.cfg); err == nil || !strings.Contains(err.Error(), "another toolguardd uses "+d.cfg.State) {
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

// When a session's policy changes, each nested session is restricted by it or ended, even if that fails for another one.
func TestRestrictNested(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	around := compiled(t, "/etc")
	add := func(number, from uint64, asked *policy.Compiled) *session {
		r := &record{Number: number, From: from, Generation: 1}
		r.Info.ID, r.Info.Workspace = fmt.Sprintf("%016x", number), "/"
		p := policiesOf(around)
		p.asked = asked
		t.Cleanup(func() { runtime.KeepAlive(p) }) // it isn't in a file
		s := d.newSession(r, proc.Ended(0))
		s.recent = weak.Make(p)
		s.over = make(chan struct{})
		close(s.over) // there is nothing in the kernel
		d.sessions[number] = s
		return s
	}
	add(1, 0, around)
	all := []*session{add(2, 1, nil), add(3, 1, compiled(t, "/usr")), add(4, 2, nil)} // the ones without a policy panic; no thread is in the other
	d.restrictNested(1)
	for _, s := range all {
		if !isClosed(s.killed) {
			t.Errorf("session %s isn't ended", s.id)
		}
	}
}

// A session's policies are in memory while they are used, and are read from its files otherwise.
func TestPolicies(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	first, now, asked := compiled(t, "/usr"), compiled(t, "/etc"), compiled(t, "/etc/ssl")
	r := &record{Number: 1, Generation: 1, Sizes: map[uint32]int{1: 5}}
	r.Info.ID = "0000000000000001"
	saved(t, d, r, policiesOf(first))
	r.Generation, r.Sizes = 2, map[uint32]int{1: 5, 2: 7}
	p := &policies{asked, 7, now, map[uint32]*policy.Compiled{1: first, 2: now}}
	saved(t, d, r, p)
	s := d.newSession(r, proc.Ended(0))
	s.recent = weak.Make(p)
	if used, err := s.policies(); used != p || err != nil {
		t.Errorf("%p and not %p, %v", used, p, err)
	}
	runtime.KeepAlive(p)
	p = nil
	unused(t, s)
	found, err := s.policies()
	if err != nil || found.inForce.Digest != now.Digest || found.asked.Digest != asked.Digest || len(found.all) != 2 ||
		found.all[2] != found.inForce || found.all[1].Digest != first.Digest {
		t.Fatalf("%+v, %v", found, err)
	}
	before := s.record
	if err := s.change(func(r *record) { r.Thread = 7; r.Sizes = map[uint32]int{2: 7} }); err != nil || s.record.Thread != 7 {
		t.Errorf("%+v, %v", s.record, err)
	}
	d.removePolicies(&before, &s.record)
	if kept, err := d.load(s.id); err != nil || kept.Thread != 7 {
		t.Errorf("%+v, %v", kept, err)
	}
	unused(t, s)
	if found, err := s.policies(); err != nil || len(found.all) != 1 || found.inForce.Digest != now.Digest {
		t.Errorf("%+v, %v", found, err)
	}
	if entries, err := os.ReadDir(d.folder() + "/" + s.id); err != nil || len(entries) != 2 { // its own file, and the policy's
		t.Errorf("%v, %v", entries, err)
	}
	d.remove(s.id)
	unused(t, s)
	if found, err := s.policies(); found != nil || err == nil {
		t.Errorf("%+v without its file", found)
	}
	if err := s.change(func(r *record) { r.Thread = 8 }); err == nil || s.record.Thread != 7 {
		t.Errorf("%+v, %v", s.record, err)
	}
	if entries, err := os.ReadDir(d.folder()); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A failed reload leaves no file of its policy.
func TestFailedReload(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	before, after := compiled(t, "/etc"), compiled(t, "/usr")
	r := &record{Number: 1, Generation: 1, Sizes: map[uint32]int{1: 1}, Net: &networkRecord{}}
	r.Info.ID, r.Info.Workspace, r.Info.State = "0000000000000001", before.Workspace, api.Running
	saved(t, d, r, policiesOf(before))
	s := d.newSession(r, proc.Ended(0))
	s.denials = &denials.Follower{}
	if err := s.reload(after, 1); err == nil || !strings.Contains(err.Error(), "couldn't be taken over") { // the network
		t.Error(err)
	}
	files, err := os.ReadDir(d.folder() + "/" + s.id)
	if err != nil || len(files) != 2 || files[0].Name() != "policy-1.json" || files[1].Name() != "session.json" {
		t.Errorf("%v, %v", files, err)
	}
	kept, err := d.load(s.id)
	if err != nil || kept.Generation != 1 || s.record.Generation != 1 || kept.Info.Reloads != 0 {
		t.Errorf("%+v, %v; %+v", kept, err, s.record)
	}
}

// A new toolguardd removes the files of sessions that were never made, or were being removed, and the files of another version.
func TestStaleFiles(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	r := &record{Number: 1, Generation: 1, Sizes: map[uint32]int{1: 1}}
	r.Info.ID = "0000000000000001"
	saved(t, d, r, policiesOf(compiled(t, "/etc")))
	childtest.Must(t, os.Remove(d.file(r.Info.ID)))
	childtest.Must(t, os.WriteFile(d.folder()+"/0000000000000002.json", []byte("{}"), 0o600))
	d.takeOver()
	if files, err := os.ReadDir(d.folder()); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// A session whose policies can't be read stays as it is: the next toolguardd may take it over.
func TestUnreadable(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	s := inKernel(t, d, 0)
	c := compiled(t, "/")
	s.record.Sizes = map[uint32]int{1: 1}
	saved(t, d, &s.record, policiesOf(c))
	in, out, err := os.Pipe()
	childtest.Must(t, err)
	defer in.Close()
	pid := s.starts(t, "/bin/cat", in)
	s.kernel.Detach()
	name := d.policyFile(s.id, 1)
	childtest.Must(t, os.Rename(name, name+".away"))
	if err := d.resume(s.id); !errors.Is(err, os.ErrNotExist) || d.sessions[s.number] != nil {
		t.Errorf("taken over: %v", err)
	}
	childtest.Must(t, os.Rename(name+".away", name))
	if err := d.resume(s.id); err != nil || d.sessions[s.number] == nil {
		t.Errorf("not taken over: %v", err)
	}
	_ = out.Close()
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}

// policiesOf are the policies of a session with only one policy, which nothing restricts.
func policiesOf(c *policy.Compiled) *policies {
	return &policies{c, 1, c, map[uint32]*policy.Compiled{1: c}}
}

// saved writes a session's files.
func saved(t testing.TB, d *Daemon, r *record, p *policies) {
	t.Helper()
	childtest.Must(t, errors.Join(d.savePolicy(r, p), d.save(r)))
}

// Waiting to read a session's policies doesn't block other requests.
func TestPoliciesAreReadInParallel(t *testing.T) {
	d, c := served(t, DefaultLimits)
	add := func(number uint64) (*session, *policies) {
		r := &record{Number: number, Generation: 1, Sizes: map[uint32]int{1: 1}}
		r.Info.ID = fmt.Sprintf("%016x", number)
		p := policiesOf(compiled(t, "/etc"))
		saved(t, d, r, p)
		s := d.newSession(r, proc.Ended(0))
		s.recent = weak.Make(p)
		close(s.over) // there is nothing in the kernel
		d.mu.Lock()
		d.sessions[number] = s
		d.mu.Unlock()
		return s, p
	}
	waits, _ := add(1)
	other, used := add(2)
	unused(t, waits)
	for range maxBodies {
		d.bodies <- struct{}{}
	}
	found := make(chan error, 1)
	go func() {
		_, err := waits.policies()
		found <- err
	}()
	for waits.finding.TryLock() { // until it looks for them
		waits.finding.Unlock()
		time.Sleep(time.Millisecond)
	}
	var list []api.Session
	if err := c.Do("GET", api.Sessions, nil, &list); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if p, err := other.policies(); p != used || err != nil {
		t.Errorf("another session's: %p and not %p, %v", p, used, err)
	}
	waits.notifyOwner(&event.Event{Kind: event.Denial})
	select {
	case err := <-found:
		t.Fatalf("the other requests have waited: %v", err)
	default:
	}
	for range maxBodies {
		<-d.bodies
	}
	if err := <-found; err != nil {
		t.Error(err)
	}
}

// unused waits until a session's policies are freed.
func unused(t *testing.T, s *session) {
	t.Helper()
	for range 100 {
		if s.recent.Value() == nil {
			return
		}
		runtime.GC()
	}
	t.Fatal("the policies stay in memory")
}
