package audit

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// Log queues events for a spool, so that their producers don't wait. It counts events beyond its capacity and events that the
// spool rejects, and reports them as a gap as soon as possible.
type Log struct {
	cfg      Config
	queue    *event.Queue
	observer func([]event.Event) // may be nil

	mu            sync.Mutex
	spool         *Spool // nil: not opened yet
	err           error  // why the last events weren't written
	signScheduled bool   // a timer will sign the unsigned records
	closed        bool
}

// Start starts a log. The first event opens the spool; if that fails, later events retry it.
func Start(cfg Config) *Log {
	l := &Log{cfg: cfg}
	l.queue = event.NewBatchQueue(writer{l})
	return l
}

// Record queues an event. It doesn't block.
func (l *Log) Record(e *event.Event) { l.queue.Write(e) }

// Sync waits until all events recorded before are on the disk. It returns an error if some were lost.
func (l *Log) Sync() error {
	l.queue.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// ReadyFor returns an error if no session of the user may start, because its events couldn't be stored.
func (l *Log) ReadyFor(uid int) error {
	if err := l.Ready(); err != nil || uid == 0 {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spool == nil {
		return nil
	}
	l.spool.measure()
	owner := strconv.Itoa(uid)
	if used, quota := l.spool.usageAndQuota(owner); used >= quota {
		return &QuotaError{owner, used, quota}
	}
	return nil
}

// Ready returns an error if no session may start.
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

// Reader returns a reader of the whole spool.
func (l *Log) Reader() *Reader { return NewReader(l.cfg.Folder, Cursor{}) }

// Usage is the size of a log, and its losses since its start.
type Usage struct {
	Bytes, Size int64
	Files       int
	Records     uint64
	Lost        uint64             // events that couldn't be written, or exceeded the queue
	OverQuota   uint64             // events beyond their user's quota
	Unsent      uint64             // records that were removed before every sink had them
	Inexact     uint64             // losses without a known count
	Behind      map[string]float64 // how many records each sink hasn't received
}

// Usage returns the current usage.
func (l *Log) Usage() Usage {
	u := Usage{Lost: l.queue.Lost()}
	l.mu.Lock()
	defer l.mu.Unlock()
	u.Size = l.cfg.Limits.withDefaults().Size
	if s := l.spool; s != nil {
		u.Bytes, u.Files, u.Records, u.OverQuota = s.used(), len(s.finished)+1, s.synced.sequence, s.overQuota
		u.Unsent, u.Inexact, u.Behind = s.unsent, s.inexact, s.behind()
	}
	return u
}

// Observe sets a function that is called with the events after they are on the disk. Call it before any event is recorded.
func (l *Log) Observe(f func([]event.Event)) { l.observer = f }

// Prune removes the oldest files until the rest has at most keep bytes, and records that in the spool.
func (l *Log) Prune(keep int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	return l.spool.prune(keep)
}

// SetLimits replaces the limits.
func (l *Log) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.Limits = limits
	if l.spool != nil {
		l.spool.Limits = limits.withDefaults()
	}
}

// Close writes the waiting events as far as possible and closes the spool. It returns how many events were lost.
func (l *Log) Close() (missing uint64, why error) {
	missing, why = l.queue.Close()
	return missing, l.closeSpool(l.queue.Unreported(), why)
}

// closeSpool accepts no more events. It records in the spool how many events may be missing: fewer are if the spool has written
// some since.
func (l *Log) closeSpool(unreported uint64, why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.spool == nil {
		return why
	}
	if unreported > 0 {
		l.spool.addInexactGap(fmt.Sprintf("toolguardd was stopped, and up to %d events that it had received are missing: %v", unreported, why))
	}
	return errors.Join(why, l.spool.Close())
}

var errClosed = errors.New("the audit is closed")

// writer is the log as the sink of its queue.
type writer struct{ *Log }

// WriteAll appends events to the spool.
func (l writer) WriteAll(events []event.Event) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = l.open(); l.err != nil {
		return 0, l.err
	}
	n, l.err = l.spool.Append(events)
	if l.observer != nil {
		l.observer(events[:n])
	}
	l.scheduleSignature()
	return n, l.err
}

// scheduleSignature signs the unsigned records after checkpointInterval, even if no event follows.
func (l *Log) scheduleSignature() {
	if !l.signScheduled && !l.closed && l.spool.unsigned > 0 {
		l.signScheduled = true
		time.AfterFunc(max(time.Second, time.Until(l.spool.signedAt.Add(checkpointInterval))), l.sign)
	}
}

func (l *Log) sign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signScheduled = false; !l.closed {
		_, _ = l.spool.writeChunk(nil) // scheduleSignature retries
		l.scheduleSignature()
	}
}

// open opens the spool unless it is open.
func (l *Log) open() (err error) {
	if l.closed {
		return errClosed
	}
	if l.spool == nil {
		l.spool, err = Open(l.cfg)
	}
	return err
}
