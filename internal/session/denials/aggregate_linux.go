package denials

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
)

// aggregateTime is how long denials like one that was emitted are counted before their number is emitted.
const aggregateTime = time.Second

// maxAggregated bounds how many different denials are counted at a time.
const maxAggregated = 1024

// repeats counts denials that are like one that was emitted less than aggregateTime ago, so that a program which asks for the same
// thing fifty thousand times a second costs a count each time, and not an event. Each has the event that was emitted; its Count
// is how many there have been since then.
type repeats map[any]*event.Event // by a likeness or an alike

// likeness is all that an event reports of a denial, but for the time.
type likeness struct {
	source                        kernelaudit.Source
	pid, ppid, uid, peer, signal  int
	exe, comm, peerComm           string
	call                          kernelaudit.Call
	errno                         syscall.Errno
	blockers, path, local, remote string
}

func likenessOf(k *kernelaudit.Denial) likeness {
	return likeness{
		source: k.Source, pid: k.PID, ppid: k.PPID, uid: k.UID, peer: k.PeerPID, signal: k.Signal,
		exe: k.Exe, comm: k.Comm, peerComm: k.PeerComm, call: k.Call, errno: k.Errno,
		blockers: strings.Join(k.Blockers, ","), path: k.Path, local: k.Local, remote: k.Remote,
	}
}

// count counts a denial that is like another one. false: there's none, so it must be emitted.
func (r repeats) count(like any, when time.Time) bool {
	e := r[like]
	if e == nil {
		return false
	}
	if e.Count == 0 {
		e.First = when
	}
	e.Count, e.Time = e.Count+1, when
	return true
}

// add begins to count what is like a denial that was emitted.
func (r repeats) add(like any, e event.Event) { r[like] = &e }

// flush emits what has been counted, and removes what there was nothing of.
func (r repeats) flush(emit func(event.Event)) {
	var list []*event.Event
	for like, e := range r {
		if e.Count == 0 {
			delete(r, like)
			continue
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *event.Event) int { return a.First.Compare(b.First) })
	for _, e := range list {
		emit(*e)
		e.Count, e.First = 0, time.Time{}
	}
}
