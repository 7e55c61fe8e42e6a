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

// How long confined processes have between SIGTERM and SIGKILL, and how long to wait then.
const (
	grace    = 2 * time.Second
	patience = 5 * time.Second
)

// supervise ends the session when the client reports the end of the command, when the client is gone, when the wall time is up, or when a
// user kills it.
func (s *session) supervise() {
	gone := make(chan struct{})
	go func() {
		s.client.Wait()
		s.mu.Lock()
		reported := s.denials
		s.mu.Unlock()
		if reported != nil {
			reported.ClientExited()
		}
		close(gone)
	}()
	wall := s.limits.WallTime
	var late <-chan time.Time
	if wall.D > 0 { // the client checks the time, too, and comes first
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

// linger waits until the last process of the session has ended, or is to be killed.
func (s *session) linger(late <-chan time.Time) (killed bool) {
	s.setState(api.Left)
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

func (s *session) setState(state api.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// finish kills the remaining processes of the session, and emits its end.
func (s *session) finish(killed bool, gone <-chan struct{}, limit bool) {
	s.setState(api.Ending)
	for _, inner := range s.d.nested(s.number) {
		inner.stop()
	}
	if killed {
		s.kill()
		select { // the client reports how its command ended
		case <-s.ended:
		case <-gone:
		case <-time.After(patience):
		}
	}
	s.blockEntry()
	left := !s.killRemaining()
	if left && s.from != 0 { // later denials of the client's thread in it would go unreported
		_ = s.client.Signal(unix.SIGKILL)
		left = !s.waitEmpty(patience, 5*time.Millisecond)
	}
	s.reportLateDenials()
	s.mu.Lock()
	reported, exit := s.denials, s.exit
	s.mu.Unlock()
	net := s.endNetwork()
	if reported != nil {
		counts := reported.End()
		s.mu.Lock()
		s.end = api.End{Denied: counts.Denied + net.Denied, Unreported: counts.Suppressed + counts.Lost + net.Suppressed + net.Lost}
		s.mu.Unlock()
		if limit {
			reported.LimitMet("wall_time", s.limits.WallTime.Position, 1)
		}
	} else if _, err := s.kernel.End(); err != nil {
		s.d.log("end session %s: %v", s.id, err)
	}
	usage := s.endGroup()
	if reported != nil {
		s.mu.Lock()
		s.end.Usage = usage
		s.mu.Unlock()
		s.d.counts.usage(usage, s.from == 0 || s.beginsInGroup())
		if exit == nil {
			exit = &event.Exit{Code: -1} // unknown
		}
		exit.Wall, exit.Denials, exit.Usage = time.Since(s.began), s.end.Denied, usage
		e := event.Event{Kind: event.SessionEnd, Mechanism: "bpf", Exit: exit}
		if limit {
			e.Reason, e.Rule, e.Place = string(policy.Limit), "limits.wall_time", s.limits.WallTime.Position.String()
		}
		reported.Emit(e)
	}
	s.calls.Close()
	_, _ = s.events.Close()
	if left { // a thread is still in the session: the session stays in the list until the client has exited
		close(s.over)
		<-gone
		s.waitFreed()
		s.d.evict(s)()
	} else {
		done := s.d.evict(s)
		close(s.over)
		s.waitFreed()
		done()
	}
	s.client.Close()
}

// waitFreed waits until the kernel has freed the session: when the memory of its last task is freed, which is after the task has been waited for.
func (s *session) waitFreed() {
	for pause := 5 * time.Millisecond; s.kernel.Counts().Tasks != 0; pause = min(2*pause, time.Second) {
		select {
		case <-s.d.stopping:
			return
		case <-time.After(pause):
		}
	}
}

// reportLateDenials reports the denials in a session whose client never confirmed that its thread is in it.
func (s *session) reportLateDenials() {
	if s.denials != nil || s.record.Thread == 0 {
		return
	}
	s.mu.Lock()
	s.followDenials(false)
	s.mu.Unlock()
	s.emitStart()
}

// blockEntry waits for a change of the session to end, and keeps threads from entering it later: their denials would go unreported.
func (s *session) blockEntry() {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.denials != nil || s.record.Thread == 0 {
		return
	}
	if err := s.kernel.CancelThread(s.thread()); err != nil {
		s.d.log("prevent process %d from entering session %s, which ends: %v", s.client.PID, s.id, err)
	}
}

// endGroup kills the processes in the cgroup, reports the limits that were met, returns the usage, and removes the cgroup. Removing one waits
// while a process is being moved, so a session that didn't wait for its cgroup at its start doesn't wait here either.
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
		s.denials.LimitMet("memory", l.Memory.Position, met.OOM)
		s.denials.LimitMet("pids", l.Pids.Position, met.PidsMax)
	}
	s.closeNestedSockets(g)
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

// kill sends SIGTERM to the processes of the session, and SIGKILL after the time grace.
func (s *session) kill() {
	s.signal(unix.SIGTERM)
	s.signal(unix.SIGCONT)
	s.waitEmpty(grace, 50*time.Millisecond)
	s.killAll()
}

// killAll kills every process of the session: those in its cgroup by cgroup.kill, and those outside, if any, by their label.
func (s *session) killAll() {
	g := s.group.Load()
	if g != nil {
		if err := g.Kill(); err != nil {
			s.d.log("kill the processes of session %s by its cgroup: %v", s.id, err)
		} else if s.waitEmpty(50*time.Millisecond, time.Millisecond) {
			return
		}
	}
	s.kernel.DenyForks() // otherwise processes that fork would escape
	var in []int
	if g != nil {
		in, _ = g.Processes()
	}
	s.eachProcess(func(pid, fd int) {
		if !proc.HasEnded(fd) && !slices.Contains(in, pid) {
			s.groupComplete.Store(false)
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	})
}

// killRemaining kills the remaining processes. Most often they end by themselves after the command.
func (s *session) killRemaining() (all bool) {
	if s.waitEmpty(100*time.Millisecond, time.Millisecond) {
		return true
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s.killAll()
		if s.waitEmpty(50*time.Millisecond, 5*time.Millisecond) {
			return true
		}
	}
	return false
}

// waitEmpty waits until no process of the session is left.
func (s *session) waitEmpty(most, pause time.Duration) bool {
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
	s.eachProcess(func(_, fd int) { _ = unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// eachProcess calls do with every process of the session, by its label. A client that has one of its threads in the session isn't one: the
// process's first thread counts.
func (s *session) eachProcess(do func(pid, fd int)) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		s.d.log("list the processes of session %s: %v", s.id, err)
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
