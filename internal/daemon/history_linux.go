package daemon

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// filter selects events.
type filter struct {
	uid                         int // of the client
	session, tool, kind, reason string
	since                       int64 // milliseconds; of recorded events
}

func (w *filter) fits(e *event.Event) bool {
	fits := func(want, is string) bool { return want == "" || want == is }
	return fits(w.session, e.Session) && fits(w.tool, e.Tool) && fits(w.kind, string(e.Kind)) && fits(w.reason, e.Reason)
}

// match parses a line, and returns its event if the filter selects it and the user may see it. Most lines are skipped without parsing.
func (w *filter) match(line []byte) (e event.Event, ok bool) {
	if event.LineTime(line) < w.since || !bytes.Contains(line, []byte(w.session)) {
		return e, false
	}
	e, err := event.Parse(line)
	return e, err == nil && (w.uid == 0 || e.Owner == strconv.Itoa(w.uid)) && w.fits(&e)
}

// pollInterval is how often a client that follows gets new records.
const pollInterval = 200 * time.Millisecond

// history sends recorded events and, with follow, those that are recorded later.
func (d *Daemon) history(r *request, w *filter, format event.Format, follow bool) error {
	if d.cfg.Audit == nil {
		return reject(503, "events are not recorded here")
	}
	done, err := d.acquireTurn(r.Context(), r.peer.QuotaKey()) // reading takes time
	if err != nil {
		return err
	}
	_ = d.cfg.Audit.Sync() // events that couldn't be recorded are missing
	lines := d.cfg.Audit.Reader()
	defer lines.Close()
	h := &history{request: r, filter: w, format: format, lines: lines}
	r.w.Header().Set("Content-Type", "application/x-ndjson")
	err = h.writePending()
	done()
	if err != nil && !h.sent {
		return reject(503, "%v", err)
	}
	w.since = 0 // the clock may be set back
	for follow && err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-d.stopping:
			follow = false // what is recorded until now is still sent
		case <-time.After(pollInterval):
		}
		err = h.writePending()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // or the answer would look complete
	}
	return nil
}

// prune removes old events.
func (d *Daemon) prune(r *request) (any, error) {
	if r.peer.UID != 0 {
		return nil, reject(403, "only root may remove recorded events")
	}
	var body api.PruneRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if d.cfg.Audit == nil || body.Bytes < 0 {
		return nil, reject(400, "give the number of bytes to keep, on a machine where events are recorded")
	}
	before := d.cfg.Audit.Usage().Bytes
	if err := d.cfg.Audit.Prune(body.Bytes); err != nil {
		return nil, err
	}
	return api.Pruned{Before: before, After: d.cfg.Audit.Usage().Bytes}, nil
}

// history sends recorded events to a client.
type history struct {
	*request
	*filter
	format event.Format
	lines  *audit.Reader
	buf    []byte
	sent   bool // the answer has begun
}

// writePending sends the events that are recorded so far.
func (h *history) writePending() error {
	var damage *audit.DamageError
	var gone *audit.RemovedError
	for {
		line, err := h.lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return h.flush()
		case errors.As(err, &damage), errors.As(err, &gone):
			h.add(&event.Event{Time: time.Now(), Kind: event.Gap, Mechanism: "spool", Extra: map[string]string{"why": err.Error(), "exact": "false"}})
		case err != nil:
			if h.sent {
				err = errors.Join(err, h.flush())
			}
			return err
		default:
			if e, ok := h.match(line); ok && h.format.PassesThrough(line) {
				h.buf = append(h.buf, line...) // unchanged, even if another version has written it
			} else if ok {
				h.add(&e)
			}
		}
		if len(h.buf) >= 64<<10 {
			if err := h.flush(); err != nil {
				return err
			}
		}
	}
}

func (h *history) add(e *event.Event) { h.buf = h.format.Append(h.buf, e) }

func (h *history) flush() error {
	h.sent = true
	err := h.send(h.buf)
	h.buf = h.buf[:0]
	return err
}
