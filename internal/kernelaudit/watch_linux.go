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
	// before it starts the command. NoSession when there is none.
	Audit uint32
	// PID is the process that makes the Landlock domains, in the initial pid namespace. It serves where Audit can't
	// be had, and is right only while that process starts one session alone; otherwise 0.
	PID int
	// Name is what a process that makes one of the session's own Landlock domains is called (PR_SET_NAME) when it isn't the
	// one that started the session. No other process may know it; "" when there is no such process.
	Name string
	// Owner is set where another process starts the session, for which this one reads. Then Audit and PID count for nothing.
	Owner *Owner
}

// Owner is the process that starts a session, and its user: nothing of another user's is delivered. Of Landlock domains those count
// that a process of the user's has made under the session's Name, whatever its number: numbers are reused. Of audit sessions it's
// the one that the process has begun since.
type Owner struct {
	UID int
	PID int // in the initial pid namespace; it lives as long as the watch
	// Runs reports whether a process belongs to the session, for denied system calls outside of such an audit session: their records
	// name no domain. known is false where the process has ended.
	Runs func(pid int) (runs, known bool)
}

// Watch collects the refusals of one session.
type Watch struct {
	r       *Reader
	session Session
	deliver func(Denial)
	before  losses
	began   time.Time
	domains map[uint64]*tally
	count   uint64
	unsure  uint64 // denied system calls of the owner's user that may be the session's
}

// tally is what is known of one of the session's Landlock domains.
type tally struct {
	own    bool // known not to be one that a confined program made for itself, which has denials that the kernel counts and doesn't report
	came   uint64
	denied uint64 // what the kernel counted
	ended  bool
}

// losses are the counters of everything that can go missing, on the whole machine.
type losses struct {
	dropped  uint32 // by the kernel
	overflow uint64 // of the socket, in occasions
	unread   uint64
}

// Watch selects a session's refusals, which are delivered from the reader's goroutine, in the kernel's order. deliver must not
// call the Reader. Begin before the session's first process is started.
func (r *Reader) Watch(s Session, deliver func(Denial)) (*Watch, error) {
	if s.Owner != nil {
		s.Audit, s.PID = NoSession, 0
	}
	w := &Watch{r: r, session: s, deliver: deliver, domains: map[uint64]*tally{}, began: time.Now()}
	dropped, err := r.lost(time.Second) // an older count can only report more loss than there was
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.before = losses{dropped, r.overflow, r.unread}
	r.watches = append(r.watches, w)
	return w, nil
}

// concerns reports whether a refusal is this session's. A domain once seen with it stays its own, whatever audit session
// a privileged member moves to. Where the record of the caller was lost it's told by who made the domain.
func (w *Watch) concerns(d *Denial) bool {
	if o := w.session.Owner; o != nil && d.UID != o.UID && d.UID != -1 {
		return false
	}
	if d.Source == Landlock && (w.domains[d.Domain] != nil || !d.Call.Known && w.own(d.Domain)) {
		return true
	}
	if w.session.Audit != NoSession {
		return d.Session == w.session.Audit
	}
	return d.Source == Seccomp && w.session.Owner != nil && w.runs(d.PID)
}

// runs reports whether the owner's session has a process, and counts those of which that can't be known any more.
func (w *Watch) runs(pid int) bool {
	runs, known := w.session.Owner.Runs(pid)
	if !known {
		w.unsure++
	}
	return runs
}

// own reports whether a domain is known to have been made to start the session.
func (w *Watch) own(id uint64) bool {
	maker, known := w.r.makers[id]
	return known && w.made(maker)
}

// made reports whether a domain was made to start the session.
func (w *Watch) made(d domain) bool {
	starter := w.starter()
	return w.session.Owner == nil && starter != 0 && d.pid == starter || w.named(d)
}

// take delivers one refusal.
func (w *Watch) take(d Denial) {
	w.count++
	if d.Source == Landlock {
		w.tally(d.Domain)
		maker, known := w.r.makers[d.Domain]
		starter := w.starter()
		d.Nested = known && starter != 0 && maker.pid != starter && !w.named(maker)
		// The record of the caller can be lost. What the starter's own domain keeps from signalling is the starter alone, where
		// those that it starts have one of their own within it.
		if !d.Call.Known && known && maker.pid == starter && w.session.Name != "" && slices.Contains(d.Blockers, "scope.signal") {
			d.PID = starter
		}
	}
	w.deliver(d)
}

// tally counts a refusal of a domain. How many domains a program makes for itself it decides, so those of other owners aren't counted.
func (w *Watch) tally(id uint64) {
	t := w.domains[id]
	if t == nil {
		if w.session.Owner != nil && (!w.own(id) || len(w.domains) >= maxRemembered) {
			return
		}
		t = &tally{}
		w.domains[id] = t
	}
	t.came++
	t.own = t.own || w.own(id)
}

// starter is the process that started the session, 0 when it isn't known.
func (w *Watch) starter() int {
	if pid := w.r.starters[w.session.Audit]; pid != 0 && w.session.Audit != NoSession {
		return pid
	}
	if w.session.Owner != nil {
		return w.session.Owner.PID
	}
	return w.session.PID
}

func (w *Watch) named(d domain) bool {
	return w.session.Name != "" && d.comm == w.session.Name && (w.session.Owner == nil || d.uid == w.session.Owner.UID)
}

// takeLogin takes the audit session that the owner has begun.
func (w *Watch) takeLogin(ses uint32, pid int) {
	if w.session.Owner != nil && pid == w.session.Owner.PID {
		w.session.Audit = ses
	}
}

func (w *Watch) takeDomain(d domain) {
	t := w.domains[d.id]
	switch {
	case d.ended && t != nil:
		t.ended, t.denied = true, d.denials
	case !d.ended && t == nil && (w.session.PID != 0 || w.session.Owner != nil) && w.made(d) && len(w.domains) < maxRemembered:
		w.domains[d.id] = &tally{own: true}
	}
}

// countTime is how long Finish waits, when something was lost, for the kernel to say how much.
const countTime = 10 * time.Second

// Finish delivers what is still on its way, as long as anything comes and the context lasts, and ends the watch. Where something was lost it
// waits up to countTime for the kernel to say how much, which it does when it frees the session's domains: every process of the session must
// have ended, and every thread that was restricted with it. Where nothing is known to be lost it doesn't wait: that takes the kernel some 50 ms,
// which every command that was denied anything would end late. An error says that no records arrive here at all.
func (w *Watch) Finish(ctx context.Context) (Totals, error) {
	defer w.Stop()
	var dropped uint32
	var unknown error
	err := w.r.mark(ctx, func() { dropped, unknown = w.r.lost(0) })
	w.r.mu.Lock()
	w.r.asm.flush() // whoever's call this was in has ended by now
	w.r.mu.Unlock()
	if errors.Is(err, ErrUnavailable) {
		t, _ := w.totals(true)
		return t, err
	}
	why := w.lost(dropped, unknown)
	if err != nil {
		why = fmt.Sprintf("the end of the records didn't come (%v)", err)
	}
	if why == "" {
		t, _ := w.totals(false)
		return w.nothingLost(t), nil
	}
	wait := countTime
	if err != nil {
		wait = 0
	}
	return w.counted(ctx, wait, why), nil
}

// nothingLost is how they add up where no record is known to be lost.
func (w *Watch) nothingLost(t Totals) Totals {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	t.Exact = w.unsure == 0
	switch {
	case t.Missing > 0:
		t.Why = "the kernel counted more than came"
	case !t.Exact:
		t.Why = fmt.Sprintf("system calls were denied to processes of this user that had ended before toolguardd could see whether they were the session's (%d)", w.unsure)
	}
	return t
}

// counted is how a session's refusals add up when something was lost, after the kernel has had so long to say how many there were.
func (w *Watch) counted(ctx context.Context, wait time.Duration, why string) Totals {
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

// lost returns what went missing since the watch began; "" when nothing did. dropped and err are what the kernel says of itself.
func (w *Watch) lost(dropped uint32, err error) string {
	if err != nil {
		return fmt.Sprintf("the kernel's loss counter couldn't be read (%v)", err)
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	switch {
	case dropped != w.before.dropped:
		return fmt.Sprintf("the kernel dropped %d audit records of the whole machine", dropped-w.before.dropped)
	case w.r.overflow != w.before.overflow:
		return "records came faster than they could be read"
	case w.r.off.After(w.began):
		return "somebody switched auditing off for a while, at " + w.r.off.Format(time.TimeOnly)
	case w.r.unread != w.before.unread:
		return fmt.Sprintf("%d audit records couldn't be understood", w.r.unread-w.before.unread)
	}
	return ""
}

// totals adds up, over all domains or over the session's own. complete reports whether the kernel's count of each is known.
func (w *Watch) totals(all bool) (t Totals, complete bool) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	complete = len(w.domains) > 0 || !all // where nothing was lost, nothing was refused
	for _, d := range w.domains {
		if !all && !d.own {
			continue
		}
		complete = complete && d.ended
		if d.denied > d.came {
			t.Missing += d.denied - d.came
		}
	}
	t.Delivered = w.count
	return t, complete
}

// Stop ends the watch without waiting for anything.
func (w *Watch) Stop() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.forget(w)
}
