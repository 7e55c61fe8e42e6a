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

// sender sends records to a receiver.
type sender interface {
	// send sends records in order. It returns how many of them, the first ones, the receiver has acknowledged. A rejection means
	// that the receiver will never accept one of the rest. After any other error, the rest is sent again.
	send(ctx context.Context, records []record) (int, error)
}

// rejection is the error of a receiver that will never accept a record.
type rejection struct{ reason string }

func (e *rejection) Error() string { return "rejected: " + e.reason }

// receiverError is the error of a receiver that failed, perhaps because of a record, each time.
type receiverError struct{ reason string }

func (e *receiverError) Error() string { return e.reason }

// How often a receiver may fail on a batch and on a single record before that counts as a rejection.
const (
	batchErrors  = 2
	recordErrors = 5
)

// isRejected reports whether the receiver will never accept one of size records, after a number of failures on the same ones.
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

// maxReason is the maximum length of a quotation of a receiver in bytes. A gap with it fits in the smallest max_record.
const maxReason = 300

// truncate returns the printable beginning of a receiver's text.
func truncate(text string) string {
	text = event.Plain(text[:min(len(text), 2*maxReason)])
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}

// retryLater is an error with the time that the receiver asks to wait.
type retryLater struct {
	err  error
	wait time.Duration
}

func (e *retryLater) Error() string { return e.err.Error() }

// pace has the intervals of polling and of retries.
type pace struct{ poll, first, max time.Duration }

var defaultPace = pace{poll: 250 * time.Millisecond, first: time.Second, max: time.Minute}

// maxRetryAfter is the maximum time for which a receiver may ask to wait.
const maxRetryAfter = 5 * time.Minute

// backoff doubles with each failure. It is randomized, so that not all shippers reconnect at once.
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
	loggedAt   time.Time // when a line was logged
	rejected   struct {  // not logged yet
		count     int
		last, why string
	}
}

func (w *worker) run(ctx context.Context) {
	defer w.from.reader.Close()
	if w.sink.Type == "nats" {
		sleep(ctx, w.pace.first) // a hostile server may crash nats.go: first, the other sinks make progress and store their cursors
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
			sleep(ctx, w.pace.first) // the audit is local, so a retry is cheap
		}
	}
}

// collect reads the next batch, as far as there are records.
func (w *worker) collect() (batch []record, err error) {
	for size := 0; len(batch) < w.sink.Batch && size < w.sink.BatchSize; {
		r, err := w.from.next()
		if err != nil && len(batch) > 0 {
			break // the next call returns it again
		}
		if err != nil {
			return nil, err
		}
		batch = append(batch, r)
		size += len(r.body)
	}
	return batch, nil
}

// deliver sends a batch until every record is acknowledged or replaced by a gap.
func (w *worker) deliver(ctx context.Context, batch []record) {
	w.state.update(w.sink.Name, func(s *Status) {
		s.Oldest = batch[0].at()
		if s.Cursor.Chain == "" {
			s.Cursor = w.from.began // records that are removed from now on are missing, also after a restart
		}
	})
	size := len(batch) // halved while a rejected record is searched
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

// attempt sends the records before the first that exceeds max_record.
func (w *worker) attempt(ctx context.Context, records []record) (int, error) {
	for i, r := range records {
		if len(r.body) > w.sink.MaxRecord && i == 0 {
			return 0, &rejection{fmt.Sprintf("the record has %d bytes, more than max_record", len(r.body))}
		} else if len(r.body) > w.sink.MaxRecord {
			records = records[:i]
			break
		}
	}
	return w.to.send(ctx, records)
}

// replace sends a gap in place of a rejected record. If the receiver rejects that, too, the record isn't the cause.
func (w *worker) replace(ctx context.Context, r record, why string) error {
	gap := w.from.gap(r.cursor, 1, fmt.Sprintf("record %s, a %s of session %q, was rejected by sink %s: %s",
		r.uid, r.Unmapped.Kind, r.Unmapped.Session, w.sink.Name, why))
	if n, err := w.to.send(ctx, []record{gap}); n == 0 {
		var rejected *rejection
		if errors.As(err, &rejected) {
			err = fmt.Errorf("the receiver accepts neither a record (%s) nor a gap: check the settings of the sink and of the receiver", why)
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
		w.log.Error("records were rejected permanently and replaced by gaps", "sink", w.sink.Name, "records", r.count, "last", r.last, "why", r.why)
		r.count = 0
	}
}

// mayLog reports whether another line may be logged: one a second, so that no receiver floods the journal.
func (w *worker) mayLog() bool {
	if time.Since(w.loggedAt) < time.Second {
		return false
	}
	w.loggedAt = time.Now()
	return true
}

// idle lets a sender maintain its connection.
func (w *worker) idle(ctx context.Context) {
	if k, ok := w.to.(interface{ maintain(context.Context) error }); ok {
		if err := k.maintain(ctx); err != nil {
			w.failed(err)
			sleep(ctx, w.pace.first)
			return
		}
	}
	w.healthy()
	w.logRejected()
	w.state.update(w.sink.Name, func(s *Status) { s.Oldest = time.Time{} })
}

// healthy records that the sink works again.
func (w *worker) healthy() {
	if w.lastLogged != "" {
		w.log.Info("records are delivered again", "sink", w.sink.Name)
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

// failed records why the records wait. It logs the same failure once.
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
