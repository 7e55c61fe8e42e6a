package launch

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ProcessRow is a process in the system's table.
type ProcessRow struct {
	PID, Parent, Group int
	Start              time.Time // with the PID it identifies a process
}

// SessionGroup finds and ends the processes of a session on a system without control groups, subreapers and signal scopes: those of toolguard's process group that
// have begun since the session, and the descendants of its first process. A process that has left the group and whose parents have ended isn't
// found; it stays in its sandbox.
type SessionGroup struct {
	Table func() ([]ProcessRow, error) // the processes of this user

	mu     sync.Mutex
	before []ProcessRow
	others []int // toolguard's own children
	first  int   // the command's PID; 0: it hasn't begun, or has ended
}

// SetFirst notes the command's PID.
func (g *SessionGroup) SetFirst(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first = pid
}

// Exclude notes a child of toolguard's that isn't the session's.
func (g *SessionGroup) Exclude(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.others = append(g.others, pid)
}

// Begin notes the processes that aren't the session's.
func (g *SessionGroup) Begin() error {
	rows, err := g.Table()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = rows
	return err
}

// Find returns the PIDs of the session's processes.
func (g *SessionGroup) Find() ([]int, error) {
	rows, err := g.Table()
	if err != nil {
		return nil, err
	}
	return g.find(rows, os.Getpid(), syscall.Getpgrp()), nil
}

// find finds the processes of the session: the first one, those that it and its descendants have made, and orphans in toolguard's process group. The
// parent of an orphan is process 1.
func (g *SessionGroup) find(rows []ProcessRow, self, group int) (pids []int) {
	const reaper = 1
	g.mu.Lock()
	defer g.mu.Unlock()
	is, first := map[int]bool{}, g.first
	for _, r := range rows {
		isNew := !slices.ContainsFunc(g.before, func(b ProcessRow) bool { return b.PID == r.PID && b.Start.Equal(r.Start) })
		is[r.PID] = first != 0 && r.PID == first || isNew && r.Parent == reaper && r.Group == group
	}
	for _, other := range append([]int{self}, g.others...) {
		is[other] = false
	}
	for more := true; more; {
		more = false
		for _, r := range rows {
			if is[r.Parent] && !is[r.PID] && r.PID != self && !slices.Contains(g.others, r.PID) {
				is[r.PID], more = true, true
			}
		}
	}
	for _, r := range rows {
		if is[r.PID] {
			pids = append(pids, r.PID)
		}
	}
	return pids
}

// Signal signals the processes of the session.
func (g *SessionGroup) Signal(sig syscall.Signal) {
	pids, err := g.Find()
	if err != nil {
		pids = nil
		g.mu.Lock()
		if g.first != 0 {
			pids = []int{g.first}
		}
		g.mu.Unlock()
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// Kill sends SIGKILL to the processes of the session until ended, which waits up to the given time, reports that they have ended.
func (g *SessionGroup) Kill(ended func(wait time.Duration) bool) {
	for {
		g.Signal(syscall.SIGKILL)
		if ended(20 * time.Millisecond) {
			return
		}
	}
}

// End ends the orphans of the command: it sends SIGTERM, and SIGKILL after Grace. It returns the number of orphans, and of those that remain.
func (g *SessionGroup) End() (orphans, remaining int, err error) {
	g.SetFirst(0)
	pids, err := g.Find()
	if err == nil && len(pids) > 0 { // the parts of a pipe are about to exit
		time.Sleep(exitTime)
		pids, err = g.Find()
	}
	if err != nil || len(pids) == 0 {
		return 0, 0, err
	}
	orphans = len(pids)
	g.Signal(syscall.SIGTERM)
	g.Signal(syscall.SIGCONT)
	if g.emptyUntil(time.Now().Add(Grace), nil) {
		return orphans, 0, nil
	}
	if g.emptyUntil(time.Now().Add(Patience), func() { g.Signal(syscall.SIGKILL) }) {
		return orphans, 0, nil
	}
	pids, err = g.Find()
	return orphans, len(pids), err
}

// exitTime is the time for processes that are about to exit, such as the parts of a pipe, before they count as orphans.
const exitTime = 10 * time.Millisecond

// emptyUntil waits until no process is left, and calls meanwhile before each look.
func (g *SessionGroup) emptyUntil(deadline time.Time, meanwhile func()) bool {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if meanwhile != nil {
			meanwhile()
		}
		if pids, err := g.Find(); err != nil || len(pids) == 0 {
			return err == nil
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}
