package daemon

import (
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// How long the guarded have between SIGTERM and SIGKILL, and how long to wait then.
const (
	grace    = 2 * time.Second
	patience = 5 * time.Second
)

// supervise waits until the session is to end, and ends it: when its toolguard says that the command has ended, or is gone
// itself, when its wall time is up, or when somebody wants it to.
func (s *session) supervise() {
	gone := make(chan struct{})
	go func() {
		s.client.Wait()
		s.mu.Lock()
		emitter := s.denials
		s.mu.Unlock()
		if emitter != nil {
			emitter.ClientExited()
		}
		close(gone)
	}()
	wall := s.limits.WallTime
	var late <-chan time.Time
	if wall.D > 0 { // its toolguard looks at the time too, and comes first
		late = time.After(time.Until(s.began.Add(wall.D + grace)))
	}
	limit := false
	select {
	case <-s.ended:
	case <-gone:
	case <-s.killed:
	case <-late:
		limit = true
	}
	killed := limit
	select {
	case <-s.killed:
		killed = true
	default:
	}
	if !killed && s.lingers {
		killed = s.linger(late)
	}
	s.finish(killed, gone, limit)
}

// linger waits until none of the guarded is left, or they're to end.
func (s *session) linger(late <-chan time.Time) (killed bool) {
	s.set(api.Left)
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-s.killed:
			return true
		case <-late:
			return true
		case <-tick.C:
			if s.kernel.Counts().Living <= 0 {
				tick.Stop()
				return false
			}
		}
	}
}

func (s *session) set(state api.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// finish ends what is left of the session, and tells of its end.
func (s *session) finish(killed bool, gone <-chan struct{}, limit bool) {
	s.set(api.Ending)
	for _, inner := range s.d.nested(s.number) {
		inner.stop()
	}
	if killed {
		s.kill()
		select { // it has seen its command end, and says how
		case <-s.ended:
		case <-gone:
		case <-time.After(patience):
		}
	}
	s.settle()
	left := !s.endTasks()
	if left && s.from != 0 { // nobody would hear what the thread that its client keeps in it is refused from now on
		_ = s.client.Signal(unix.SIGKILL)
		left = !s.await(patience, 5*time.Millisecond)
	}
	s.hearLate()
	s.mu.Lock()
	emitter, exit := s.denials, s.exit
	s.mu.Unlock()
	net := s.endNetwork()
	if emitter != nil {
		counts := emitter.End()
		s.mu.Lock()
		s.end = api.End{Denied: counts.Denied + net.Denied, Untold: counts.Suppressed + counts.Lost + net.Suppressed + net.Lost}
		s.mu.Unlock()
		if limit {
			emitter.LimitMet("wall_time", s.limits.WallTime.Place, 1)
		}
	} else if _, err := s.kernel.End(); err != nil {
		s.d.log("end session %s: %v", s.id, err)
	}
	usage := s.endGroup()
	if emitter != nil {
		s.mu.Lock()
		s.end.Usage = usage
		s.mu.Unlock()
		s.d.counts.usage(usage, s.from == 0 || s.beginsInGroup())
		if exit == nil {
			exit = &event.Exit{Code: -1} // nobody knows
		}
		exit.Wall, exit.Denials, exit.Usage = time.Since(s.began), s.end.Denied, usage
		e := event.Event{Kind: event.SessionEnd, Mechanism: "bpf", Exit: exit}
		if limit {
			e.Reason, e.Rule, e.Place = string(policy.Limit), "limits.wall_time", s.limits.WallTime.Place.String()
		}
		emitter.Emit(e)
	}
	_, _ = s.events.Close()
	if left { // the client keeps its thread in the session, or the kernel some other: it stays in the list until then
		close(s.over)
		<-gone
		s.empty()
		s.d.forget(s)()
	} else {
		done := s.d.forget(s)
		close(s.over)
		s.empty()
		done()
	}
	s.client.Close()
}

// empty waits until the kernel has the session's place for another one: it keeps it as long as it has memory of one who was in it, which
// is a moment longer than he lives, or until somebody has waited for him.
func (s *session) empty() {
	for pause := 5 * time.Millisecond; s.kernel.Counts().Tasks != 0; pause = min(2*pause, time.Second) {
		select {
		case <-s.d.stopping:
			return
		case <-time.After(pause):
		}
	}
}

// hearLate tells what was refused in a session whose toolguard has had a thread put into it, and never said that it's in.
func (s *session) hearLate() {
	if s.denials != nil || s.record.Thread == 0 {
		return
	}
	s.mu.Lock()
	s.follow(false)
	s.mu.Unlock()
	s.tellStart()
}

// settle waits for who changes the session still; whoever comes later sees that it ends. Nobody enters it after: what he's refused nobody
// would hear.
func (s *session) settle() {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.denials != nil || s.record.Thread == 0 {
		return
	}
	if err := s.kernel.CancelThread(s.thread()); err != nil {
		s.d.log("keep process %d out of session %s, which ends: %v", s.client.PID, s.id, err)
	}
}

// endGroup kills the processes that are still in the cgroup, reports the limits that were met, returns what the session used, and removes the
// cgroup. Removing one waits while a process is being moved, so a session that didn't wait for its cgroup at its start doesn't wait here either.
func (s *session) endGroup() *event.Usage {
	g := s.group.Load()
	if g == nil {
		return s.usage()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	busy, err := g.Populated()
	if err == nil && busy {
		err = g.Kill()
	}
	if err == nil && busy {
		err = g.WaitEmpty(ctx)
	}
	if met, e := g.Events(); e == nil && s.denials != nil {
		l := s.limits
		s.denials.LimitMet("memory", l.Memory.Place, met.OOM)
		s.denials.LimitMet("pids", l.Pids.Place, met.PidsMax)
	}
	s.endWithin(g)
	usage := s.usage()
	remove := func() {
		if err == nil {
			err = g.Remove()
		}
		if err != nil {
			s.d.log("remove the cgroup of session %s: %v", s.id, err)
		}
	}
	if s.beginsInGroup() {
		remove()
	} else {
		go remove()
	}
	return usage
}

// kill asks the guarded to end.
func (s *session) kill() {
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT)
	s.await(grace, 50*time.Millisecond)
	s.endAll()
}

// endAll kills every process of the session: by cgroup.kill those in its cgroup and those that are being forked there, then by their label in
// the kernel those outside of it, of which there are most often none.
func (s *session) endAll() {
	g := s.group.Load()
	if g != nil {
		if err := g.Kill(); err != nil {
			s.d.log("end the processes of session %s by its cgroup: %v", s.id, err)
		} else if s.await(50*time.Millisecond, time.Millisecond) {
			return
		}
	}
	s.kernel.DenyForks() // or those that fork would escape
	var in []int
	if g != nil {
		in, _ = g.Processes()
	}
	s.each(func(pid, fd int) {
		if !proc.HasEnded(fd) && !slices.Contains(in, pid) {
			s.whole.Store(false)
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	})
}

// endTasks ends whatever is left. What was started by a toolguard that has told the end is most likely gone by itself.
func (s *session) endTasks() (all bool) {
	if s.await(100*time.Millisecond, time.Millisecond) {
		return true
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s.endAll()
		if s.await(50*time.Millisecond, 5*time.Millisecond) {
			return true
		}
	}
	return false
}

// await waits until none of the guarded is left.
func (s *session) await(most, pause time.Duration) bool {
	for end := time.Now().Add(most); ; time.Sleep(pause) {
		if s.kernel.Counts().Living <= 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// signal signals every process of the session.
func (s *session) signal(sig unix.Signal) {
	s.each(func(_, fd int) { _ = unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// each finds every process of the session, known by its label. A toolguard that has put one of its threads into the session isn't one: what
// counts is the process's first thread.
func (s *session) each(do func(pid, fd int)) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		s.d.log("look for the processes of session %s: %v", s.id, err)
	}
	for _, e := range dirs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if id, err := s.d.kernel.SessionOf(fd); err == nil && id == s.number {
			do(pid, fd)
		}
		_ = unix.Close(fd)
	}
}
