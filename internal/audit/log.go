package audit

import (
	"errors"
	"sync"

	"github.com/toolguard/toolguard/internal/event"
)

// Log takes events for a spool from those who may not wait. What it can't hold, and what the spool can't take, is counted, and told as a
// gap as soon as there's room.
type Log struct {
	cfg   Config
	queue *event.Queue

	mu     sync.Mutex
	spool  *Spool // nil: not opened yet
	err    error  // why the last events weren't written
	closed bool
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

// Ready says why no session may begin: what happens in it couldn't be kept.
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.spool != nil {
		why = errors.Join(why, l.spool.Close())
	}
	return missing, why
}

var errClosed = errors.New("the audit is closed")

// writer is a log for its queue.
type writer struct{ *Log }

// WriteAll appends events to the spool.
func (l writer) WriteAll(events []event.Event) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, errClosed
	}
	if l.spool == nil {
		l.spool, l.err = Open(l.cfg)
	}
	if l.spool != nil {
		n, l.err = l.spool.Append(events)
	}
	return n, l.err
}
