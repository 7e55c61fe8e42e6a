package audit

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// Log takes events for a spool from those who may not wait. What it can't hold, and what the spool can't take, is counted, and told as a
// gap as soon as there's room.
type Log struct {
	cfg   Config
	queue *event.Queue
	kept  func([]event.Event) // nil: nobody wants to know

	mu      sync.Mutex
	spool   *Spool // nil: not opened yet
	err     error  // why the last events weren't written
	signing bool   // what isn't signed will be, when it's time
	closed  bool
}

// Start begins a log. Its spool is opened with the first event, and again with later ones while that fails.
func Start(cfg Config) *Log {
	l := &Log{cfg: cfg}
	l.queue = event.NewBatchQueue(writer{l})
	return l
}

// Record takes an event in. It doesn't wait.
func (l *Log) Record(e *event.Event) { l.queue.Write(e) }

// Sync waits until all that was recorded before is on the disk, or counted as lost, which is an error.
func (l *Log) Sync() error {
	l.queue.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// ReadyFor says why no session of a user's may begin: what happens in it couldn't be kept.
func (l *Log) ReadyFor(uid int) error {
	if err := l.Ready(); err != nil || uid == 0 {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spool == nil {
		return nil
	}
	l.spool.reckon()
	owner := strconv.Itoa(uid)
	if used, may := l.spool.shareOf(owner); used >= may {
		return &ShareError{owner, used, may}
	}
	return nil
}

// Ready says why no session at all may begin.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.Drop:
		return nil
	case l.err != nil || l.spool == nil:
		return l.err
	}
	return l.spool.nearlyFull()
}

// Reader reads what is kept, from the beginning.
func (l *Log) Reader() *Reader { return NewReader(l.cfg.Folder, Cursor{}) }

// Usage is what a log takes, and what it has lost since it was started.
type Usage struct {
	Bytes, Size int64
	Files       int
	Records     uint64
	Lost        uint64             // events that couldn't be written, or waited for too long
	Withheld    uint64             // events beyond their user's share
	Unsent      uint64             // records that were removed before every sink had them
	Unknown     uint64             // losses of which nobody knows how much
	Behind      map[string]float64 // how many records each sink hasn't got
}

// Usage is what it takes now.
func (l *Log) Usage() Usage {
	u := Usage{Lost: l.queue.Lost()}
	l.mu.Lock()
	defer l.mu.Unlock()
	u.Size = l.cfg.Limits.set().Size
	if s := l.spool; s != nil {
		u.Bytes, u.Files, u.Records, u.Withheld = s.used(), len(s.parts)+1, s.done.sequence, s.beyond
		u.Unsent, u.Unknown, u.Behind = s.unsent, s.unknown, s.behind()
	}
	return u
}

// Observe has f called with all events that are on the disk from now on. It's called once, before any is recorded.
func (l *Log) Observe(f func([]event.Event)) { l.kept = f }

// Prune removes the oldest files until the others take no more than keep bytes, which is told in the audit.
func (l *Log) Prune(keep int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	return l.spool.prune(keep)
}

// SetLimits has other limits count from now on.
func (l *Log) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.Limits = limits
	if l.spool != nil {
		l.spool.Limits = limits.set()
	}
}

// Close writes what waits, as far as it can, and closes the spool. It returns how many events were lost.
func (l *Log) Close() (missing uint64, why error) {
	missing, why = l.queue.Close()
	return missing, l.end(l.queue.Unreported(), why)
}

// end takes no more events, and tells at the spool's end how many aren't there. Fewer are missing where the spool has taken some since.
func (l *Log) end(untold uint64, why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.spool == nil {
		return why
	}
	if untold > 0 {
		l.spool.owe(fmt.Sprintf("toolguardd was stopped, and up to %d events that it had heard aren't here: %v", untold, why))
	}
	return errors.Join(why, l.spool.Close())
}

var errClosed = errors.New("the audit is closed")

// writer is a log for its queue.
type writer struct{ *Log }

// WriteAll appends events to the spool.
func (l writer) WriteAll(events []event.Event) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = l.open(); l.err != nil {
		return 0, l.err
	}
	n, l.err = l.spool.Append(events)
	if l.kept != nil {
		l.kept(events[:n])
	}
	l.signSoon()
	return n, l.err
}

// signSoon has what isn't signed yet signed when it's time, also where nothing comes after it.
func (l *Log) signSoon() {
	if !l.signing && !l.closed && l.spool.lines > 0 {
		l.signing = true
		time.AfterFunc(max(time.Second, time.Until(l.spool.stamped.Add(checkpointTime))), l.sign)
	}
}

func (l *Log) sign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signing = false; !l.closed {
		_, _ = l.spool.piece(nil) // or it's tried again
		l.signSoon()
	}
}

// open opens the spool where that hasn't been done.
func (l *Log) open() (err error) {
	if l.closed {
		return errClosed
	}
	if l.spool == nil {
		l.spool, err = Open(l.cfg)
	}
	return err
}
