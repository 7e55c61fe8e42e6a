package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// drainTime bounds how long the end of a session waits for denials that are still on their way, as long as any come. It's only
// after a flood that there are many.
const drainTime = time.Minute

// kept bounds how many different denials are remembered for the report; all of them go to the events.
const kept = 1000

// denials collects what the kernel refused in one session: what is new becomes an event at once, what repeats is counted, and the
// different ones are kept for the report.
type denials struct {
	run     *run
	records records     // nil: denials can't be seen
	proof   *time.Timer // until the records are proven; nil: they aren't listened to
	foreign bool        // processes have other numbers in them than here

	mu        sync.Mutex
	deaf      bool  // that nothing is heard has been said
	unseen    error // why nothing is
	repeats   repeats
	ancestors map[int][]event.Process // of processes that were refused something since the last tick, by their parent's number
	ticking   bool                    // tick will be called

	counts     func() loader.Counts // of the session in the kernel; nil: none, or no more
	untold     uint64               // how many of those that it lost have been told
	unrecorded uint64               // likewise of programs that were executed

	netCounts func() cgroupsock.Counts // of its network, while it lasts
	netUntold uint64

	keep  int // how many different ones
	list  []Denial
	at    map[denialKey]int
	total uint64
	more  uint64 // denials of what the policy allows
	lost  uint64
	why   string // what was lost, for people; "" when nothing was
}

// denialKey is what makes two denials the same to a reader of the report.
type denialKey struct{ resource, capability, target, reason, rule string }

// listen is the collection of what the kernel tells, where this user may hear it.
func listen(r *run) (*denials, error) {
	d := newDenials(r, kept)
	e, err := r.machine.listen()
	if err != nil {
		if d.unseen = d.subscribe(err); d.unseen != nil {
			r.deaf(d.unseen)
		}
		return d, nil
	}
	s := kernelaudit.Session{Audit: e.audit, Name: r.cmd.name}
	if e.err != nil {
		s.PID = os.Getpid()
		r.cfg.notice("denials by system call filters can't be attributed and won't be shown: %v", e.err)
	}
	w, err := e.reader.Watch(s, func(k kernelaudit.Denial) {
		if k.PID != r.self { // toolguard itself, from within: kill(-1) asks for everybody on the machine (see inside.signalAll)
			d.receive(k)
		}
	})
	if err != nil {
		return nil, errors.Join(err, e.reader.Close())
	}
	d.records = ownRecords{e.reader, w}
	return d, nil
}

// deaf says that what the kernel tells isn't heard.
func (r *run) deaf(err error) {
	switch {
	case r.cfg.Events == nil:
	case r.held == nil:
		r.cfg.notice("denials are enforced but can't be shown: %v", err)
	case r.cmd.plan != nil && !r.cfg.Policy.RefusesNet(): // all others the programs tell, and without the network there are no ports
		r.cfg.notice("denials of ports are enforced but can't be shown: %v", err)
	}
}

func newDenials(r *run, keep int) *denials {
	return &denials{
		run: r, repeats: repeats{}, ancestors: map[int][]event.Process{}, at: map[denialKey]int{},
		keep: keep,
	}
}

// proofDelay is after what time it's looked whether the kernel's records arrive. The end of a shorter session shows it anyway.
const proofDelay = 50 * time.Millisecond

// begin begins to take denials in. The kernel has kept them until now, so that the command wasn't kept waiting.
func (d *denials) begin() {
	if d.records == nil {
		return
	}
	d.records.Listen()
	d.proof = time.AfterFunc(proofDelay, func() {
		err := d.records.Prove()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.deafened(err)
	})
}

// deafened says once that the kernel's records don't arrive, unless some did. It's called with the lock held.
func (d *denials) deafened(err error) {
	if err != nil && !d.deaf && !d.records.Proven() {
		d.deaf, d.unseen = true, err
		d.run.deaf(err)
	}
}

// receive runs on the goroutine of the records.
func (d *denials) receive(k kernelaudit.Denial) {
	if k.Nested || k.Moot {
		return // a sandbox that the command made for itself, or nothing that the command noticed
	}
	if k.Source == kernelaudit.Seccomp && d.run.report.Backend == "bpf" {
		return // the programs tell it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gather(likenessOf(&k), k.Time, func() event.Event {
		first := event.Process{PID: k.PID, UID: k.UID, Exe: k.Exe, Comm: k.Comm}
		return d.run.denied(k, d.chain(first, event.Process{PID: k.PPID, UID: -1}))
	})
}

// gather counts a denial that is like another one, or tells it.
func (d *denials) gather(like any, when time.Time, make func() event.Event) {
	if d.repeats.count(like, when) {
		return
	}
	e := make()
	d.tell(e)
	if len(d.repeats) == maxGathered {
		d.endRepeats()
	}
	d.repeats.add(like, e)
	d.tickSoon()
}

// tickSoon has tick called, if it isn't to be already.
func (d *denials) tickSoon() {
	if !d.ticking {
		d.ticking = true
		time.AfterFunc(gatherTime, d.tick)
	}
}

// tick tells what repeated, as long as anything does.
func (d *denials) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.repeats.flush(d.tell)
	d.tellLosses()
	d.askNetLosses()
	clear(d.ancestors)
	if d.ticking = len(d.repeats) > 0; d.ticking {
		time.AfterFunc(gatherTime, d.tick)
	}
}

// endRepeats tells what repeated and begins anew.
func (d *denials) endRepeats() {
	d.repeats.flush(d.tell)
	clear(d.repeats)
	clear(d.ancestors)
}

// chain is the process that was refused and its ancestors inside the session. The first comes from the kernel's record, and so does its
// parent if that's gone; the others, which cost many system calls, from /proc, when somebody reads them: best effort, and as they were at
// the last tick.
func (d *denials) chain(first, parent event.Process) []event.Process {
	list := []event.Process{first}
	if d.run.cfg.Events == nil || d.foreign {
		return list
	}
	if parent.PID == 0 {
		parent.PID, _ = proc.Parent(first.PID)
	}
	others := ancestors(parent.PID, d.run.self, d.ancestors)
	if len(others) == 0 && parent.PID > 1 && parent.PID != d.run.self {
		others = []event.Process{parent}
	}
	return append(list, others...)
}

// add counts a denial and sends its event.
func (d *denials) add(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell(e)
}

func (d *denials) tell(e event.Event) {
	d.count(e, max(1, e.Count))
	d.run.emit(e)
}

func (d *denials) count(e event.Event, n uint64) {
	if e.Reason == string(policy.EngineError) {
		d.more += n
		return
	}
	d.total += n
	key := denialKey{e.Resource, e.Capability, e.Target, e.Reason, e.Rule}
	if i, ok := d.at[key]; ok {
		d.list[i].Count += n
	} else if len(d.list) < d.keep {
		d.at[key] = len(d.list)
		d.list = append(d.list, Denial{Event: e.Clean(), Count: n})
	}
}

// drain takes in what is still on its way, and says what was lost.
func (d *denials) drain() {
	d.hearRest()
	if d.records == nil {
		return
	}
	d.proof.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	t, err := d.records.Finish(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endRepeats()
	if err != nil {
		d.deafened(err)
		return
	}
	if t.Missing != 0 || !t.Exact {
		d.gap("audit", t.Missing, t.Why, t.Exact)
	}
}

// gap says that denials went by unseen.
func (d *denials) gap(mechanism string, n uint64, why string, exact bool) {
	d.lost, d.why = d.lost+n, why
	d.run.gap(mechanism, n, 0, why, exact)
}

// gap tells that n events were lost, of which execs are of programs that were executed.
func (r *run) gap(mechanism string, n, execs uint64, why string, exact bool) {
	e := r.about(event.Event{Kind: event.Gap, Count: n, Execs: execs, Mechanism: mechanism})
	e.Extra = map[string]string{"why": why, "exact": fmt.Sprint(exact)}
	r.emit(e)
}

// close lets go of the kernel's records, and puts auditing back as it was.
func (d *denials) close() error {
	if d.records == nil {
		return nil
	}
	return d.records.Close()
}

// visible tells whether denials can be heard of.
func (d *denials) visible() bool {
	return d.records != nil && d.records.Proven() || d.run.report.Backend == "bpf"
}

// summary adds what was denied to a result.
func (d *denials) summary(r *Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Denials, r.Total, r.More, r.Visible = d.list, d.total, d.more, d.visible()
	r.Lost, r.WhyLost = d.lost, d.why
	if d.unseen != nil && !r.Visible {
		r.WhyUnseen = d.unseen.Error()
	}
}
