package denials

import (
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// maxListed bounds the different denials that are kept for the report. The events have all.
const maxListed = 1000

// tally counts the denials of a session, and lists the different ones.
type tally struct {
	keep  int // the maximum length of list
	list  []Denial
	at    map[denialKey]int
	total uint64
	more  uint64 // denials of what the policy allows
	lost  uint64
	why   string // why denials were lost; "": none were
}

// denialKey is what makes two denials the same to a reader of the report.
type denialKey struct{ resource, capability, target, reason, rule string }

func newTally(keep int) tally { return tally{keep: keep, at: map[denialKey]int{}} }

func (d *tally) count(e event.Event, n uint64) {
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

func (d *tally) summary(visible bool) Summary {
	return Summary{Denials: d.list, Total: d.total, More: d.more, Visible: visible, Lost: d.lost, WhyLost: d.why}
}
