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

// wanted is what somebody wants to hear of.
type wanted struct {
	uid                         int // who asks
	session, tool, kind, reason string
	since                       int64 // milliseconds; of what was kept
}

func (w *wanted) fits(e *event.Event) bool {
	fits := func(want, is string) bool { return want == "" || want == is }
	return fits(w.session, e.Session) && fits(w.tool, e.Tool) && fits(w.kind, string(e.Kind)) && fits(w.reason, e.Reason)
}

// kept is the event of a line, if it's wanted and the asker's to know. Most lines aren't, and that is seen without reading all of them.
func (w *wanted) kept(line []byte) (e event.Event, ok bool) {
	if event.LineTime(line) < w.since || !bytes.Contains(line, []byte(w.session)) {
		return e, false
	}
	e, err := event.Parse(line)
	return e, err == nil && (w.uid == 0 || e.Owner == strconv.Itoa(w.uid)) && w.fits(&e)
}

// lookAgain is how often it's looked whether more was kept.
const lookAgain = 200 * time.Millisecond

// history hands out what was kept and, if it's to go on, what is kept from then on.
func (d *Daemon) history(r *request, w *wanted, format event.Format, goOn bool) error {
	if d.cfg.Audit == nil {
		return refuse(503, "nobody keeps the events")
	}
	done, err := d.turn(r.Context(), r.peer.QuotaKey()) // reading takes time
	if err != nil {
		return err
	}
	_ = d.cfg.Audit.Sync() // what couldn't be kept isn't there
	lines := d.cfg.Audit.Reader()
	defer lines.Close()
	h := &history{request: r, wanted: w, format: format, lines: lines}
	r.w.Header().Set("Content-Type", "application/x-ndjson")
	err = h.hand()
	done()
	if err != nil && !h.sent {
		return refuse(503, "%v", err)
	}
	w.since = 0 // the clock may be set back
	for goOn && err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-d.stopping:
			goOn = false // what was said until now is still handed out
		case <-time.After(lookAgain):
		}
		err = h.hand()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // or what was told would look complete
	}
	return nil
}

// prune removes old events.
func (d *Daemon) prune(r *request) (any, error) {
	if r.peer.UID != 0 {
		return nil, refuse(403, "the audit is root's")
	}
	var body api.Keep
	if _, err := r.read(&body); err != nil {
		return nil, err
	}
	if d.cfg.Audit == nil || body.Bytes < 0 {
		return nil, refuse(400, "say how many bytes are to be kept, of events that are kept")
	}
	before := d.cfg.Audit.Usage().Bytes
	if err := d.cfg.Audit.Prune(body.Bytes); err != nil {
		return nil, err
	}
	return api.Pruned{Before: before, After: d.cfg.Audit.Usage().Bytes}, nil
}

// history is the handing out of what was kept.
type history struct {
	*request
	*wanted
	format event.Format
	lines  *audit.Reader
	buf    []byte
	sent   bool // the answer has begun
}

// hand hands out what there is.
func (h *history) hand() error {
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
			if e, ok := h.kept(line); ok && h.format.PassesThrough(line) {
				h.buf = append(h.buf, line...) // as it is, whichever version has written it
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
