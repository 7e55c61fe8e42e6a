package kernelaudit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Session identifies the denials of one session.
type Session struct {
	// Audit is the audit session from FreshSession, called in the process that also restricts itself with Landlock
	// before it starts the command; or NoSession.
	Audit uint32
	// PID is the process that creates the Landlock domains, in the initial pid namespace. It identifies the session if there is no
	// audit session, which is correct only while that process starts a single session; otherwise 0.
	PID int
	// Name is the name (PR_SET_NAME) of a process that creates one of the session's own Landlock domains and isn't the one that
	// started the session. No other process may know it; "" if there is no such process.
	Name string
	// Owner is set if this process reads for another one, which starts the session. Audit and PID are ignored then.
	Owner *Owner
}

// Owner is the process that starts a session, and its user: no denial of another user's process is delivered. A Landlock domain counts if a
// process of that user created it under the session's Name, whatever its pid: pids are reused. An audit session counts if the owner has
// begun it during the watch.
type Owner struct {
	UID int
	PID int // in the initial pid namespace; it lives as long as the watch
	// Runs reports whether a process belongs to the session. It's called for denied system calls outside of such an audit session, whose
	// records name no domain. known is false if the process has ended.
	Runs func(pid int) (runs, known bool)
}

// Watch collects the denials of one session.
type Watch struct {
	r            *Reader
	session      Session
	deliver      func(Denial)
	lossesBefore losses
	began        time.Time
	domains      map[uint64]*domainCount
	delivered    uint64
	unattributed uint64 // denied system calls of the owner's user that may be the session's
}

// domainCount has the counts of one of the session's Landlock domains.
type domainCount struct {
	own       bool // created to start the session. Of other domains the kernel counts denials that it doesn't report
	delivered uint64
	counted   uint64 // by the kernel
	ended     bool
}

// losses are the machine's counters of lost records.
type losses struct {
	dropped  uint32 // by the kernel
	overflow uint64 // of the socket, in occasions
	unread   uint64
}

// Watch selects a session's denials and delivers them from the reader's goroutine, in the kernel's order. deliver must not call the Reader.
// Call it before the session's first process is started.
func (r *Reader) Watch(s Session, deliver func(Denial)) (*Watch, error) {
	if s.Owner != nil {
		s.Audit, s.PID = NoSession, 0
	}
	w := &Watch{r: r, session: s, deliver: deliver, domains: map[uint64]*domainCount{}, began: time.Now()}
	dropped, err := r.droppedRecords(time.Second) // an older count can only report more loss than there was
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.lossesBefore = losses{dropped, r.overflow, r.unread}
	r.watches = append(r.watches, w)
	return w, nil
}

// matches reports whether a denial is this session's. A domain once seen with the session remains its own, whatever audit session a
// privileged member moves to. If the caller's record was lost, the process that created the domain decides.
func (w *Watch) matches(d *Denial) bool {
	if o := w.session.Owner; o != nil && d.UID != o.UID && d.UID != -1 {
		return false
	}
	if d.Source == Landlock && (w.domains[d.Domain] != nil || !d.Call.Known && w.isOwnDomain(d.Domain)) {
		return true
	}
	if w.session.Audit != NoSession {
		return d.Session == w.session.Audit
	}
	return d.Source == Seccomp && w.session.Owner != nil && w.ownerRuns(d.PID)
}

// ownerRuns reports whether a process belongs to the owner's session, and counts those that ended before that could be determined.
func (w *Watch) ownerRuns(pid int) bool {
	runs, known := w.session.Owner.Runs(pid)
	if !known {
		w.unattributed++
	}
	return runs
}

// isOwnDomain reports whether a domain is known to have been created to start the session.
func (w *Watch) isOwnDomain(id uint64) bool {
	maker, known := w.r.makers[id]
	return known && w.isOwnMaker(maker)
}

// isOwnMaker reports whether a domain was created to start the session.
func (w *Watch) isOwnMaker(d domain) bool {
	starter := w.starter()
	return w.session.Owner == nil && starter != 0 && d.pid == starter || w.hasSessionName(d)
}

// handleDenial counts and delivers one denial.
func (w *Watch) handleDenial(d Denial) {
	w.delivered++
	if d.Source == Landlock {
		w.countDenial(d.Domain)
		maker, known := w.r.makers[d.Domain]
		starter := w.starter()
		d.Nested = known && starter != 0 && maker.pid != starter && !w.hasSessionName(maker)
		// If the record of the caller was lost: the starter's own domain denies signals to the starter alone, if the processes
		// that it starts are in a nested domain.
		if !d.Call.Known && known && maker.pid == starter && w.session.Name != "" && slices.Contains(d.Blockers, "scope.signal") {
			d.PID = starter
		}
	}
	w.deliver(d)
}

// countDenial counts a denial of a domain. A program can create any number of domains for itself, so for an Owner these aren't counted.
func (w *Watch) countDenial(id uint64) {
	t := w.domains[id]
	if t == nil {
		if w.session.Owner != nil && (!w.isOwnDomain(id) || len(w.domains) >= maxTracked) {
			return
		}
		t = &domainCount{}
		w.domains[id] = t
	}
	t.delivered++
	t.own = t.own || w.isOwnDomain(id)
}

// starter returns the process that started the session, or 0 if it isn't known.
func (w *Watch) starter() int {
	if pid := w.r.starters[w.session.Audit]; pid != 0 && w.session.Audit != NoSession {
		return pid
	}
	if w.session.Owner != nil {
		return w.session.Owner.PID
	}
	return w.session.PID
}

func (w *Watch) hasSessionName(d domain) bool {
	return w.session.Name != "" && d.comm == w.session.Name && (w.session.Owner == nil || d.uid == w.session.Owner.UID)
}

// recordLogin sets the audit session that the owner has begun.
func (w *Watch) recordLogin(ses uint32, pid int) {
	if w.session.Owner != nil && pid == w.session.Owner.PID {
		w.session.Audit = ses
	}
}

func (w *Watch) recordDomain(d domain) {
	t := w.domains[d.id]
	switch {
	case d.ended && t != nil:
		t.ended, t.counted = true, d.denials
	case !d.ended && t == nil && (w.session.PID != 0 || w.session.Owner != nil) && w.isOwnMaker(d) && len(w.domains) < maxTracked:
		w.domains[d.id] = &domainCount{own: true}
	}
}

// countTimeout is how long Finish waits for the kernel's counts after a loss.
const countTimeout = 10 * time.Second

// Finish delivers the records that are still queued, until the context ends or no more arrive, and ends the watch. After a loss it waits up
// to countTimeout for the kernel's counts. The kernel reports them when it frees the session's domains, once every process of the session and
// every thread that was restricted with it has ended. Without a known loss it doesn't wait: the kernel takes some 50 ms, by which every
// command with a denial would end later. An error means that no records arrive at all.
func (w *Watch) Finish(ctx context.Context) (Totals, error) {
	defer w.Stop()
	var dropped uint32
	var unknown error
	err := w.r.waitForMark(ctx, func() { dropped, unknown = w.r.droppedRecords(0) })
	w.r.mu.Lock()
	w.r.assembler.flush() // these calls' processes have ended by now
	w.r.mu.Unlock()
	if errors.Is(err, ErrUnavailable) {
		t, _ := w.totals(true)
		return t, err
	}
	why := w.lossReason(dropped, unknown)
	if err != nil {
		why = fmt.Sprintf("the last records didn't arrive (%v)", err)
	}
	if why == "" {
		t, _ := w.totals(false)
		return w.totalsWithoutLoss(t), nil
	}
	wait := countTimeout
	if err != nil {
		wait = 0
	}
	return w.waitForCount(ctx, wait, why), nil
}

// totalsWithoutLoss completes totals for a watch without a known loss.
func (w *Watch) totalsWithoutLoss(t Totals) Totals {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	t.Exact = w.unattributed == 0
	switch {
	case t.Missing > 0:
		t.Why = "the kernel counted more denials than it reported"
	case !t.Exact:
		t.Why = fmt.Sprintf("system calls were denied to processes of this user that ended before toolguardd could determine their session (%d)", w.unattributed)
	}
	return t
}

// waitForCount returns the totals after a loss. It waits at most so long for the kernel's counts.
func (w *Watch) waitForCount(ctx context.Context, wait time.Duration, why string) Totals {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		t, complete := w.totals(true)
		if t.Why, t.Exact = why, complete; complete || ctx.Err() != nil {
			return t
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// lossReason describes the loss since the watch began, or returns "". dropped and err are the result of droppedRecords.
func (w *Watch) lossReason(dropped uint32, err error) string {
	if err != nil {
		return fmt.Sprintf("the kernel's loss counter couldn't be read (%v)", err)
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	switch {
	case dropped != w.lossesBefore.dropped:
		return fmt.Sprintf("the kernel dropped %d audit records of the whole machine", dropped-w.lossesBefore.dropped)
	case w.r.overflow != w.lossesBefore.overflow:
		return "records came faster than they could be read"
	case w.r.disabledAt.After(w.began):
		return "auditing was switched off for a while, at " + w.r.disabledAt.Format(time.TimeOnly)
	case w.r.unread != w.lossesBefore.unread:
		return fmt.Sprintf("%d audit records couldn't be understood", w.r.unread-w.lossesBefore.unread)
	}
	return ""
}

// totals sums up all domains or the session's own. complete reports whether the kernel's count of each is known.
func (w *Watch) totals(all bool) (t Totals, complete bool) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	complete = len(w.domains) > 0 || !all // without a loss there were no denials
	for _, d := range w.domains {
		if !all && !d.own {
			continue
		}
		complete = complete && d.ended
		if d.counted > d.delivered {
			t.Missing += d.counted - d.delivered
		}
	}
	t.Delivered = w.delivered
	return t, complete
}

// Stop ends the watch without waiting for anything.
func (w *Watch) Stop() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.removeWatch(w)
}
