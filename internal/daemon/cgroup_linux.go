package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// beginsInGroup reports whether the command may not execute before it's in the session's cgroup.
func (s *session) beginsInGroup() bool { return limited(s.limits) || s.network != nil }

// moveDelay is how long a session's command runs before it's moved into a cgroup that it could begin without. Moving a process waits until
// every processor has passed through the scheduler, up to 24 ms, and making other cgroups waits for that: a command that has ended by then
// costs none of it.
const moveDelay = 100 * time.Millisecond

// moveIntoGroup creates a cgroup for a session that started without one, and moves all of its processes there.
func (s *session) moveIntoGroup() {
	if s.beginsInGroup() {
		s.groupComplete.Store(s.group.Load() != nil)
		return
	}
	var g *managed.Group
	for pause := moveDelay; s.sleepWhileRunning(pause); pause = min(2*pause, time.Second) {
		var err error
		if g == nil {
			g, err = s.makeGroup()
		}
		switch {
		case err != nil:
			s.noGroup.Store(&err)
			return
		case g == nil: // not yet
		case s.gather(g):
			s.groupComplete.Store(true)
			return
		}
	}
	if g != nil && s.group.Load() == nil && s.currentState() == api.Ending {
		_ = g.Remove()
	}
}

// sleepWhileRunning waits, and reports whether the session and toolguardd still run.
func (s *session) sleepWhileRunning(pause time.Duration) bool {
	select {
	case <-s.d.stopping:
		return false
	case <-s.over:
		return false
	case <-time.After(pause):
		return s.currentState() != api.Ending
	}
}

// makeGroup creates the session's cgroup, or opens the one that a former toolguardd created; nil: it's too early. The cgroup of a nested
// session lies beneath the outer one's, so that its limits apply.
func (s *session) makeGroup() (*managed.Group, error) {
	if s.kernel.Counts().Living <= s.ownThread() { // the command isn't there yet
		return nil, nil
	}
	facts := cgroup.Probe()
	parent := facts.Parent()
	if s.from != 0 {
		outer, err := s.d.session(s.from)
		if err != nil {
			return nil, nil
		}
		around := outer.group.Load()
		if around == nil {
			return nil, nil
		}
		parent = around.Path()
	}
	g, err := managed.Open(filepath.Join(parent, s.id))
	if errors.Is(err, fs.ErrNotExist) {
		g, err = managed.NewIn(parent, s.id, policy.Limits{}, facts)
	}
	return g, err
}

// threadDir is the folder in /proc of the client's thread that is in the session.
func (s *session) threadDir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("/proc/%d/task/%d", s.client.PID, s.record.Thread)
}

// ownThread is 1 as long as the client's thread is in the session, else 0.
func (s *session) ownThread() int {
	if _, err := os.Stat(s.threadDir()); err != nil {
		return 0
	}
	return 1
}

// gather moves the session's other processes into its cgroup, and reports whether all are there. The command is a child of the client's thread;
// its descendants are found by their label.
func (s *session) gather(g *managed.Group) (all bool) {
	in, err := g.Processes()
	if err != nil {
		return false
	}
	move := func(pid int) {
		if !slices.Contains(in, pid) && s.move(g, pid) == nil { // else it has ended
			in = append(in, pid)
		}
	}
	children, _ := os.ReadFile(s.threadDir() + "/children")
	for _, word := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(word); err == nil {
			move(pid)
		}
	}
	if s.adoptGroup(g) && s.allIn(g) {
		return true
	}
	s.eachProcess(func(pid, _ int) { move(pid) })
	return s.adoptGroup(g) && s.allIn(g)
}

// adoptGroup makes a cgroup the session's once a process is in it, unless the session ends.
func (s *session) adoptGroup(g *managed.Group) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group.Load() == nil && s.state != api.Ending {
		if in, err := g.Populated(); err == nil && in {
			s.group.Store(g)
		}
	}
	return s.group.Load() == g
}

// allIn reports whether the kernel counts only the threads in the session's cgroup, and the client's. A search by PID could miss processes
// that fork and end faster.
func (s *session) allIn(g *managed.Group) bool {
	for range 5 { // while they come and go
		threads, err := g.Threads()
		if err != nil {
			return false
		}
		// The client of each nested session is in this cgroup, with a thread that is in the nested session.
		if s.kernel.Counts().Living == threads-len(s.d.nested(s.number))+s.ownThread() {
			return true
		}
	}
	return false
}

// addCommand moves the command, which waits for it, into the session's cgroup.
func (s *session) addCommand(pid int) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.currentState() == api.Ending {
		return fmt.Errorf("session %s is being ended", s.id)
	}
	if s.info().Command != 0 {
		return fmt.Errorf("session %s has a command already", s.id)
	}
	if err := s.move(s.group.Load(), pid); err != nil {
		return err
	}
	s.groupComplete.Store(true)
	return s.change(func(r *record) { r.Info.Command = pid })
}

// move moves a process of the session into its cgroup.
func (s *session) move(g *managed.Group, pid int) error {
	p, err := proc.Open(pid, 0) // its PID may be reused until it's in the cgroup
	if err != nil {
		return err
	}
	defer p.Close()
	if id, err := s.d.kernel.SessionOf(p.FD); err != nil || id != s.number {
		return errors.Join(fmt.Errorf("process %d doesn't belong to session %s", pid, s.id), err)
	}
	if err := g.Add(pid); err != nil {
		return err
	}
	if err := p.Alive(); err != nil { // a process that reused the PID may have been moved there
		return errors.Join(fmt.Errorf("process %d: %w", pid, err), s.expel(g))
	}
	return nil
}

// expel moves processes outside of the session, and of its nested ones, out of its cgroup: an unconfined process to its parent's, another
// to its own session's.
func (s *session) expel(g *managed.Group) error {
	pids, err := g.Processes()
	for _, pid := range pids {
		p, gone := proc.Open(pid, 0)
		if gone != nil {
			continue
		}
		id, why := s.d.kernel.SessionOf(p.FD)
		p.Close()
		group := s.d.groupOf(id)
		var parent uint64
		switch {
		case id == s.number:
			continue
		case why != nil || group == g || id != 0 && group == nil: // one whose session isn't known stays confined to the cgroup
			continue
		case id != 0:
			why = group.Add(pid)
		default:
			if parent, why = proc.Stat(pid, 4); why == nil {
				why = cgroup.MoveTo(pid, int(parent))
			}
		}
		s.d.log("session %s: a process ended while it was moved into the session's cgroup, and process %d, which reused its PID, was moved out again", s.id, pid)
		err = errors.Join(err, why)
	}
	return err
}

// groupOf is the cgroup of a session's processes, which may be an outer session's; nil: none, or unknown.
func (d *Daemon) groupOf(id uint64) *managed.Group {
	for id != 0 {
		s, err := d.session(id)
		if err != nil {
			return nil
		}
		if g := s.group.Load(); g != nil {
			return g
		}
		id = s.from
	}
	return nil
}

// usage is what the session's cgroup has counted, and what it hasn't counted.
func (s *session) usage() *event.Usage {
	g := s.group.Load()
	if g == nil {
		return &event.Usage{Missing: s.whyNoGroup()}
	}
	u, why := g.Usage()
	if !s.groupComplete.Load() {
		why = append(why, "the usage of its processes outside of its cgroup")
	}
	if len(why) > 0 {
		u.Missing = strings.Join(why, "; ")
	}
	return &u
}

func (s *session) whyNoGroup() string {
	switch why := s.noGroup.Load(); {
	case why != nil:
		return fmt.Sprintf("its cgroup can't be read: %v", *why)
	case s.currentState() == api.Ending:
		return "it ended before it was in a cgroup of its own"
	}
	return "it isn't in a cgroup of its own yet"
}
