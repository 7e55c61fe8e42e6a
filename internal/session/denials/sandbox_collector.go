package denials

import (
	"sync"

	"github.com/toolguard/toolguard/internal/darwin/oslog"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// SandboxCollector collects the denials of a session in macOS's sandbox: those that the unified log reports, and those of egress. The log merges
// equal denials itself.
type SandboxCollector struct {
	Session     uint64
	Policy      *policy.Compiled
	Tool, Agent string
	Events      *event.Queue // nil: events are not emitted

	mu      sync.Mutex
	visible bool
	unseen  error // why the log can't be read
	tally
}

// Visible notes whether the unified log is read, or why it isn't.
func (d *SandboxCollector) Visible(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visible, d.unseen = why == nil, why
}

// Denied handles a denial of the session that the unified log reports.
func (d *SandboxCollector) Denied(k oslog.Denial) {
	if k.System || NoisySandbox(k) {
		return
	}
	e := DescribeSandbox(d.Policy, k)
	at := k.Time
	e = d.About(e)
	if !at.IsZero() {
		e.Time = at
	}
	d.emit(e)
}

// DeniedByName handles a denial by egress.
func (d *SandboxCollector) DeniedByName(k *message.Denial) {
	e := egressEvent(k)
	if k.Answer.Advice != "" {
		e.Extra["advice"] = k.Answer.Advice
	}
	d.emit(d.About(e))
}

// LimitMet emits that a limit was met.
func (d *SandboxCollector) LimitMet(name string, position policy.Position) {
	d.emit(d.About(limitEvent(name, position, 1)))
}

// Lost reports that n denials weren't reported; 0: the number is unknown.
func (d *SandboxCollector) Lost(mechanism string, n uint64, why string) {
	e := d.About(event.Event{Kind: event.Gap, Count: n, Mechanism: mechanism, Extra: map[string]string{"why": why, "exact": "false"}})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost, d.why = d.lost+n, why
	if d.Events != nil {
		d.Events.Write(&e)
	}
}

// About sets the fields that all events of the session have.
func (d *SandboxCollector) About(e event.Event) event.Event {
	return about(e, d.Policy, d.Session, d.Tool, d.Agent)
}

func (d *SandboxCollector) emit(e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tally.at == nil {
		d.tally = newTally(maxListed)
	}
	d.count(e, max(1, e.Count))
	if d.Events != nil {
		d.Events.Write(&e)
	}
}

// Summary returns the denials so far.
func (d *SandboxCollector) Summary() Summary {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.tally.summary(d.visible)
	if d.unseen != nil {
		s.WhyUnseen = d.unseen.Error()
	}
	return s
}
