package denials

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
)

// aggregateTime is how long denials equal to an emitted one are counted before their number is emitted.
const aggregateTime = time.Second

// maxAggregated bounds how many different denials are counted at a time.
const maxAggregated = 1024

// repeats counts denials that equal one that was emitted less than aggregateTime ago: fifty thousand equal denials a second must not make as
// many events. The key is an auditKey, a bpfKey, a cgroupsock.Event or an egressKey, the value is the emitted event. Its Count is the number of
// equal denials since then.
type repeats map[any]*event.Event

// auditKey is all that an event reports of an audit record, except the time.
type auditKey struct {
	source                        kernelaudit.Source
	pid, ppid, uid, peer, signal  int
	exe, comm, peerComm           string
	call                          kernelaudit.Call
	errno                         syscall.Errno
	blockers, path, local, remote string
}

func auditKeyOf(k *kernelaudit.Denial) auditKey {
	return auditKey{
		source: k.Source, pid: k.PID, ppid: k.PPID, uid: k.UID, peer: k.PeerPID, signal: k.Signal,
		exe: k.Exe, comm: k.Comm, peerComm: k.PeerComm, call: k.Call, errno: k.Errno,
		blockers: strings.Join(k.Blockers, ","), path: k.Path, local: k.Local, remote: k.Remote,
	}
}

// count counts a denial that equals an emitted one. It returns false if there is none: the denial must be emitted.
func (r repeats) count(key any, when time.Time) bool {
	e := r[key]
	if e == nil {
		return false
	}
	if e.Count == 0 {
		e.First = when
	}
	e.Count, e.Time = e.Count+1, when
	return true
}

// add begins to count the denials that equal an emitted one.
func (r repeats) add(key any, e event.Event) { r[key] = &e }

// flush emits the counts, and removes the events without repetition.
func (r repeats) flush(emit func(event.Event)) {
	var list []*event.Event
	for key, e := range r {
		if e.Count == 0 {
			delete(r, key)
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
