package ship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// sender hands records to a receiver.
type sender interface {
	// send hands records over, in order, and returns how many of them, the first ones, the receiver has acknowledged. A refusal says
	// that one of the others will never be taken; after any other error they're sent again.
	send(ctx context.Context, records []record) (int, error)
}

// rejection is a receiver's word that it'll never take a record as it is.
type rejection struct{ reason string }

func (e *rejection) Error() string { return "refused: " + e.reason }

// receiverError is a receiver's word that it failed: it may be the record that it fails on, each time.
type receiverError struct{ reason string }

func (e *receiverError) Error() string { return e.reason }

// How often a receiver may fail on the same records before it's taken for a refusal: on several, and on one.
const (
	batchErrors  = 2
	recordErrors = 5
)

// isRejected tells whether an error says that one of so many records will never be taken, after so many others like it.
func isRejected(err error, size, failures int) (why string, yes bool) {
	var rejected *rejection
	if errors.As(err, &rejected) {
		return truncate(rejected.reason), true
	}
	var f *receiverError
	if !errors.As(err, &f) {
		return "", false
	}
	maxErrors := batchErrors
	if size == 1 {
		maxErrors = recordErrors
	}
	return truncate(f.reason), failures+1 >= maxErrors
}

// maxReason bounds what is told of a receiver's words, in bytes: a gap with them fits into the shortest max_record.
const maxReason = 300

// truncate is the beginning of what a receiver says, as it may be shown.
func truncate(text string) string {
	text = event.Plain(text[:min(len(text), 2*maxReason)])
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}

// retryLater is an error after which the receiver asks to be left alone for a while.
type retryLater struct {
	err  error
	wait time.Duration
}

func (e *retryLater) Error() string { return e.err.Error() }

// pace is how often is tried.
type pace struct{ poll, first, max time.Duration }

var defaultPace = pace{poll: 250 * time.Millisecond, first: time.Second, max: time.Minute}

// maxRetryAfter bounds how long a receiver may ask to be left alone.
const maxRetryAfter = 5 * time.Minute

// backoff doubles with each failure, with some chance in it, so that not all shippers come back at once.
func (p pace) backoff(failures int, err error) time.Duration {
	d := min(p.first<<min(failures, 16), p.max)
	d = d/2 + rand.N(d/2+1)
	var asked *retryLater
	if errors.As(err, &asked) {
		d = max(d, min(asked.wait, maxRetryAfter))
	}
	return d
}

// worker serves one sink.
type worker struct {
	sink  Sink
	to    sender
	from  *source
	state *state
	log   *slog.Logger
	pace  pace

	lastLogged string    // the failure that was logged last
	loggedAt   time.Time // when something was
	rejected   struct {  // what isn't logged yet
		count     int
		last, why string
	}
}

func (w *worker) run(ctx context.Context) {
	defer w.from.reader.Close()
	if w.sink.Type == "nats" {
		sleep(ctx, w.pace.first) // what its server says may end the process: by then the other sinks have gone on, and their cursors are kept
	}
	for ctx.Err() == nil {
		batch, err := w.collect()
		switch {
		case err == nil:
			w.deliver(ctx, batch)
		case errors.Is(err, io.EOF):
			w.idle(ctx)
			sleep(ctx, w.pace.poll)
		default:
			w.failed(err)
			sleep(ctx, w.pace.first) // it's on this machine: asking costs little
		}
	}
}

// collect reads what is sent at a time: what there is, up to a batch.
func (w *worker) collect() (batch []record, err error) {
	for size := 0; len(batch) < w.sink.Batch && size < w.sink.BatchSize; {
		r, err := w.from.next()
		if err != nil && len(batch) > 0 {
			break // it comes again
		}
		if err != nil {
			return nil, err
		}
		batch = append(batch, r)
		size += len(r.body)
	}
	return batch, nil
}

// deliver sends a batch until all of it is acknowledged, or stands as a gap.
func (w *worker) deliver(ctx context.Context, batch []record) {
	w.state.update(w.sink.Name, func(s *Status) {
		s.Oldest = batch[0].at()
		if s.Cursor.Chain == "" {
			s.Cursor = w.from.began // what is removed from now on is missing, also after another start
		}
	})
	size := len(batch) // fewer at a time while a record is looked for that is refused
	failures := 0      // on the same records
	for len(batch) > 0 && ctx.Err() == nil {
		size = min(size, len(batch))
		n, err := w.attempt(ctx, batch[:size])
		if n > 0 {
			w.delivered(batch[:n])
			batch, failures = batch[n:], 0
		}
		why, rejected := isRejected(err, size, failures)
		switch {
		case err == nil:
			size = len(batch)
			continue
		case rejected && size > 1:
			size, failures = (size+1)/2, 0
			continue
		case rejected && !batch[0].gap:
			if err = w.replace(ctx, batch[0], why); err == nil {
				batch, failures = batch[1:], 0
				continue
			}
		}
		if ctx.Err() == nil {
			w.failed(err)
			sleep(ctx, w.pace.backoff(failures, err))
			failures++
		}
	}
}

// attempt sends once, as far as the records aren't too long.
func (w *worker) attempt(ctx context.Context, records []record) (int, error) {
	for i, r := range records {
		if len(r.body) > w.sink.MaxRecord && i == 0 {
			return 0, &rejection{fmt.Sprintf("it has %d bytes, more than max_record", len(r.body))}
		} else if len(r.body) > w.sink.MaxRecord {
			records = records[:i]
			break
		}
	}
	return w.to.send(ctx, records)
}

// replace sends a gap in the place of a record that is refused. Where that's refused too, it's not the record that is wrong.
func (w *worker) replace(ctx context.Context, r record, why string) error {
	gap := w.from.gap(r.cursor, 1, fmt.Sprintf("record %s, a %s of session %q, was refused by sink %s: %s",
		r.uid, r.Unmapped.Kind, r.Unmapped.Session, w.sink.Name, why))
	if n, err := w.to.send(ctx, []record{gap}); n == 0 {
		var rejected *rejection
		if errors.As(err, &rejected) {
			err = fmt.Errorf("it takes neither a record (%s) nor the word that it's missing: look at the sink's settings, and at the receiver's", why)
		}
		return err
	}
	w.state.update(w.sink.Name, func(s *Status) { s.Rejected++ })
	w.delivered([]record{gap})
	w.rejected.count++
	w.rejected.last, w.rejected.why = r.uid, why
	w.logRejected()
	return nil
}

func (w *worker) logRejected() {
	if r := &w.rejected; r.count > 0 && w.mayLog() {
		w.log.Error("records were refused for good, and are missing there", "sink", w.sink.Name, "records", r.count, "last", r.last, "why", r.why)
		r.count = 0
	}
}

// mayLog tells whether another line may be logged: one a second, so that no receiver pushes out what else is in the machine's journal.
func (w *worker) mayLog() bool {
	if time.Since(w.loggedAt) < time.Second {
		return false
	}
	w.loggedAt = time.Now()
	return true
}

// idle lets a sender look after its connection.
func (w *worker) idle(ctx context.Context) {
	if k, ok := w.to.(interface{ keep(context.Context) error }); ok {
		if err := k.keep(ctx); err != nil {
			w.failed(err)
			sleep(ctx, w.pace.first)
			return
		}
	}
	w.healthy()
	w.logRejected()
	w.state.update(w.sink.Name, func(s *Status) { s.Oldest = time.Time{} })
}

// healthy notes that nothing is wrong any more.
func (w *worker) healthy() {
	if w.lastLogged != "" {
		w.log.Info("records go on", "sink", w.sink.Name)
	}
	w.lastLogged = ""
	w.state.update(w.sink.Name, func(s *Status) { s.Failing, s.Since = "", time.Time{} })
}

func (w *worker) delivered(records []record) {
	w.healthy()
	w.state.update(w.sink.Name, func(s *Status) {
		s.Last = time.Now()
		s.Cursor = records[len(records)-1].cursor
		for _, r := range records {
			s.Delivered++
			if r.gap {
				s.Gaps++
			}
		}
	})
}

// failed notes why records wait. The same failure is logged once.
func (w *worker) failed(err error) {
	why := truncate(err.Error())
	w.state.update(w.sink.Name, func(s *Status) {
		s.Retries++
		if s.Failing == "" {
			s.Since = time.Now()
		}
		s.Failing = why
	})
	if why != w.lastLogged && w.mayLog() {
		w.lastLogged = why
		w.log.Warn("records wait", "sink", w.sink.Name, "why", why)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
