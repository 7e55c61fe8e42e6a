package denials

import (
	"context"
	"fmt"
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

// maxListed bounds how many different denials are cacheTime for the report; all of them go to the events.
const maxListed = 1000

// Collector collects what is denied in one session: what is new becomes an event at once, what repeats is counted, and the
// different ones are kept for the report.
type Collector struct {
	cfg     Config
	records Records     // nil: the kernel's records of denials can't be read
	proof   *time.Timer // until the records are proven; nil: they aren't listened to
	missing func(error) // reports that they don't arrive
	foreign bool        // processes have other numbers in them than here

	mu        sync.Mutex
	policy    *policy.Compiled // in force
	self      int              // see DenialsConfig
	warned    bool             // that no records arrive has been reported
	unseen    error            // why none do
	repeats   repeats
	ancestors map[int][]event.Process // of processes that were denied something since the last tick, by their parent's number
	ticking   bool                    // tick will be called

	counts         func() loader.Counts // of the session in the kernel; nil: none, or no more
	lossesReported uint64               // how many of those that it lost have been reported
	unrecorded     uint64               // also of programs that were executed

	networkCounts         func() cgroupsock.Counts // of its network, while it lasts
	networkLossesReported uint64

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

// NewCollector is a collector for the run of a command, which ends with a report.
func NewCollector(cfg Config) *Collector { return newCollector(cfg, maxListed) }

func newCollector(cfg Config, keep int) *Collector {
	return &Collector{
		cfg: cfg, policy: cfg.Policy, self: cfg.Self, repeats: repeats{}, ancestors: map[int][]event.Process{}, at: map[denialKey]int{},
		keep: keep,
	}
}

// Unrecorded notes why the kernel's records of denials can't be read.
func (d *Collector) Unrecorded(why error) { d.unseen = why }

// CollectRecords has the session's records collected, from Begin on. missing reports, once, that they don't arrive.
func (d *Collector) CollectRecords(r Records, missing func(error)) { d.records, d.missing = r, missing }

// Reads reports whether the kernel's records of denials are read.
func (d *Collector) Reads() bool { return d.records != nil }

// proofDelay is after what time it's looked whether the kernel's records arrive. The end of a shorter session shows it anyway.
const proofDelay = 50 * time.Millisecond

// Begin begins to take records in. The kernel has kept them until now, so that the command wasn't kept waiting.
func (d *Collector) Begin() {
	if d.records == nil {
		return
	}
	d.records.Listen()
	d.proof = time.AfterFunc(proofDelay, func() {
		err := d.records.Prove()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.unproven(err)
	})
}

// unproven reports once that the kernel's records don't arrive, unless some did. It's called with the lock held.
func (d *Collector) unproven(err error) {
	if err != nil && !d.warned && !d.records.Proven() {
		d.warned, d.unseen = true, err
		d.missing(err)
	}
}

// Receive runs on the goroutine of the records.
func (d *Collector) Receive(k kernelaudit.Denial) {
	if k.Nested || k.Moot {
		return // a sandbox that the command made for itself, or nothing that the command noticed
	}
	if k.Source == kernelaudit.Seccomp && d.cfg.Mechanism == "bpf" {
		return // the programs report it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aggregate(likenessOf(&k), k.Time, func() event.Event {
		first := event.Process{PID: k.PID, UID: k.UID, Exe: k.Exe, Comm: k.Comm}
		return Describe(&d.cfg, d.policy, &k, d.chain(first, event.Process{PID: k.PPID, UID: -1}))
	})
}

// gather counts a denial that is like another one, or emits it.
func (d *Collector) aggregate(like any, when time.Time, make func() event.Event) {
	if d.repeats.count(like, when) {
		return
	}
	e := make()
	d.emitDenial(e)
	if len(d.repeats) == maxAggregated {
		d.endRepeats()
	}
	d.repeats.add(like, e)
	d.tickSoon()
}

// tickSoon has tick called, if it isn't to be already.
func (d *Collector) tickSoon() {
	if !d.ticking {
		d.ticking = true
		time.AfterFunc(aggregateTime, d.tick)
	}
}

// tick emits what repeated, as long as anything does.
func (d *Collector) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.repeats.flush(d.emitDenial)
	d.reportLosses()
	d.checkNetworkLosses()
	clear(d.ancestors)
	if d.ticking = len(d.repeats) > 0; d.ticking {
		time.AfterFunc(aggregateTime, d.tick)
	}
}

// endRepeats emits what repeated and begins again.
func (d *Collector) endRepeats() {
	d.repeats.flush(d.emitDenial)
	clear(d.repeats)
	clear(d.ancestors)
}

// chain is the process that was denied something and its ancestors inside the session. The first comes from the kernel's record, and so does its
// parent if that's gone; the others, which cost many system calls, from /proc, when they are read: best effort, and as they were at
// the last tick.
func (d *Collector) chain(first, parent event.Process) []event.Process {
	list := []event.Process{first}
	if d.cfg.Events == nil || d.foreign {
		return list
	}
	if parent.PID == 0 {
		parent.PID, _ = proc.Parent(first.PID)
	}
	others := ancestors(parent.PID, d.self, d.ancestors)
	if len(others) == 0 && parent.PID > 1 && parent.PID != d.self {
		others = []event.Process{parent}
	}
	return append(list, others...)
}

// LimitMet emits how many times a limit was met, if it was.
func (d *Collector) LimitMet(name string, position policy.Position, times uint64) {
	if times == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.emitDenial(d.about(event.Event{
		Kind: event.Denial, Resource: "limits", Capability: name, Target: name, Mechanism: "supervisor", Count: times,
		Reason: string(policy.Limit), Rule: "limits." + name, Place: position.String(),
	}))
}

func (d *Collector) emitDenial(e event.Event) {
	d.count(e, max(1, e.Count))
	d.emit(e)
}

func (d *Collector) emit(e event.Event) {
	if d.cfg.Events != nil {
		d.cfg.Events.Write(&e)
	}
}

// about fills in what every event of the session says.
func (d *Collector) about(e event.Event) event.Event { return d.cfg.About(d.policy, e) }

func (d *Collector) count(e event.Event, n uint64) {
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

// Drain takes in what is still on its way, and reports what was lost. end ends the session in the kernel, and returns what was counted in it.
func (d *Collector) Drain(end func() loader.Counts) {
	d.drainKernel(end)
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
		d.unproven(err)
		return
	}
	if t.Missing != 0 || !t.Exact {
		d.gap("audit", t.Missing, t.Why, t.Exact)
	}
}

// gap reports that denials went by unseen.
func (d *Collector) gap(mechanism string, n uint64, why string, exact bool) {
	d.lost, d.why = d.lost+n, why
	d.gapOf(mechanism, n, 0, why, exact)
}

// gapOf emits that n events were lost, of which execs are of programs that were executed.
func (d *Collector) gapOf(mechanism string, n, execs uint64, why string, exact bool) {
	e := d.about(event.Event{Kind: event.Gap, Count: n, Execs: execs, Mechanism: mechanism})
	e.Extra = map[string]string{"why": why, "exact": fmt.Sprint(exact)}
	d.emit(e)
}

// Close closes the kernel's records, and restores auditing.
func (d *Collector) Close() error {
	if d.records == nil {
		return nil
	}
	return d.records.Close()
}

// visible reports whether denials can be seen.
func (d *Collector) visible() bool {
	return d.records != nil && d.records.Proven() || d.cfg.Mechanism == "bpf"
}

// Summary is what was denied.
func (d *Collector) Summary() Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Summary{Denials: d.list, Total: d.total, More: d.more, Visible: d.visible(), Lost: d.lost, WhyLost: d.why}
	if d.unseen != nil && !s.Visible {
		s.WhyUnseen = d.unseen.Error()
	}
	return s
}

// Warn is for people.
func (d *Collector) Warn(format string, args ...any) { d.cfg.warn(format, args...) }

// Forward takes in an event that toolguardd has made.
func (d *Collector) Forward(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Kind == event.Denial {
		d.emitDenial(e)
		return
	}
	if lost, ok := e.LostDenials(); ok {
		d.lost, d.why = d.lost+lost, e.Extra["why"]
	}
	d.emit(e)
}
