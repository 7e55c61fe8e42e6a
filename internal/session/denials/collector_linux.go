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

// drainTime bounds how long the end of a session waits for pending denials. Only after a flood there are many.
const drainTime = time.Minute

// Collector collects the denials of one session: it emits new ones at once, counts repeated ones, and keeps the different ones for the report.
type Collector struct {
	cfg     Config
	records Records     // nil: the kernel's records of denials can't be read
	proof   *time.Timer // checks that records arrive; nil: Begin wasn't called
	missing func(error) // reports that no records arrive
	foreign bool        // their PIDs are those of another PID namespace

	mu        sync.Mutex
	policy    *policy.Compiled // in force
	self      int              // see Config.Self
	warned    bool             // missing was called
	unseen    error            // why no records arrive
	repeats   repeats
	ancestors map[int][]event.Process // ancestors that were found since the last tick, by PID
	ticking   bool                    // tick will be called

	counts         func() loader.Counts // of the session in the kernel; nil: none, or it has ended
	lossesReported uint64               // the lost denials that were reported
	unrecorded     uint64               // the lost executions that were reported

	networkCounts         func() cgroupsock.Counts // of its network; nil: none, or it has ended
	networkLossesReported uint64

	tally
}

// NewCollector returns a collector for the run of a command, which ends with a report.
func NewCollector(cfg Config) *Collector { return newCollector(cfg, maxListed) }

func newCollector(cfg Config, keep int) *Collector {
	return &Collector{
		cfg: cfg, policy: cfg.Policy, self: cfg.Self, repeats: repeats{}, ancestors: map[int][]event.Process{},
		tally: newTally(keep),
	}
}

// Unrecorded notes why the kernel's records of denials can't be read.
func (d *Collector) Unrecorded(why error) { d.unseen = why }

// CollectRecords makes Begin collect the session's records. missing is called once if none arrive.
func (d *Collector) CollectRecords(r Records, missing func(error)) { d.records, d.missing = r, missing }

// Reads reports whether the kernel's records of denials are read.
func (d *Collector) Reads() bool { return d.records != nil }

// proofDelay is the time until the check whether records arrive. The end of a shorter session checks it anyway.
const proofDelay = 50 * time.Millisecond

// Begin begins to read records. The kernel has queued them until now, so that the command didn't wait.
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

// unproven reports once that no records arrive, unless some did. mu is locked.
func (d *Collector) unproven(err error) {
	if err != nil && !d.warned && !d.records.Proven() {
		d.warned, d.unseen = true, err
		d.missing(err)
	}
}

// Receive runs on the goroutine of the records.
func (d *Collector) Receive(k kernelaudit.Denial) {
	if k.Nested || k.Moot {
		return // denied by a sandbox that the command made for itself, or without effect
	}
	if k.Source == kernelaudit.Seccomp && d.cfg.Mechanism == "bpf" {
		return // the BPF programs report it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aggregate(auditKeyOf(&k), k.Time, func() event.Event {
		first := event.Process{PID: k.PID, UID: k.UID, Exe: k.Exe, Comm: k.Comm}
		return Describe(&d.cfg, d.policy, &k, d.chain(first, event.Process{PID: k.PPID, UID: -1}))
	})
}

// aggregate counts a denial that equals an emitted one, or emits it.
func (d *Collector) aggregate(key any, when time.Time, make func() event.Event) {
	if d.repeats.count(key, when) {
		return
	}
	e := make()
	d.emitDenial(e)
	if len(d.repeats) == maxAggregated {
		d.endRepeats()
	}
	d.repeats.add(key, e)
	d.scheduleTick()
}

// scheduleTick schedules tick, unless it is already scheduled.
func (d *Collector) scheduleTick() {
	if !d.ticking {
		d.ticking = true
		time.AfterFunc(aggregateTime, d.tick)
	}
}

// tick emits the counts of repeated denials, and reschedules itself while there are any.
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

// endRepeats emits the counts of repeated denials, and removes all.
func (d *Collector) endRepeats() {
	d.repeats.flush(d.emitDenial)
	clear(d.repeats)
	clear(d.ancestors)
}

// chain returns the denied process and its ancestors in the session. The first comes from the kernel's record, and so does its parent if it has
// ended. The others come from /proc, best effort, and are cached until the next tick because they need many system calls.
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

// LimitMet emits the number of times that a limit was met, unless it is 0.
func (d *Collector) LimitMet(name string, position policy.Position, times uint64) {
	if times == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.emitDenial(d.about(limitEvent(name, position, times)))
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

// about sets the fields that all events of the session have.
func (d *Collector) about(e event.Event) event.Event { return d.cfg.About(d.policy, e) }

// Drain collects the pending denials, and reports losses. end ends the session in the kernel, and returns its counts.
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

// gap reports that n denials were lost.
func (d *Collector) gap(mechanism string, n uint64, why string, exact bool) {
	d.lost, d.why = d.lost+n, why
	d.gapOf(mechanism, n, 0, why, exact)
}

// gapOf emits that n events were lost, of which execs are executions.
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

// visible reports whether denials are collected.
func (d *Collector) visible() bool {
	return d.records != nil && d.records.Proven() || d.cfg.Mechanism == "bpf"
}

// Summary returns the denials so far.
func (d *Collector) Summary() Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.tally.summary(d.visible())
	if d.unseen != nil && !s.Visible {
		s.WhyUnseen = d.unseen.Error()
	}
	return s
}

// Warn shows a warning to people.
func (d *Collector) Warn(format string, args ...any) { d.cfg.warn(format, args...) }

// Forward emits an event that toolguardd made.
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
