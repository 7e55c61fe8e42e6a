package ship

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// record is one event for one sink.
type record struct {
	cursor audit.Cursor // the position after it in the audit
	uid    string
	body   []byte // in the sink's format, without a newline
	gap    bool   // it replaces missing records
	members
}

// members are the members of an event that senders need.
type members struct {
	Time     int64 // in milliseconds; with a count, when the last one happened
	EndTime  int64 `json:"end_time"`
	Severity int   `json:"severity_id"`
	Message  string
	Device   struct{ Hostname string }
	Unmapped struct{ Kind, Session string }
}

func (f *members) at() time.Time { return time.UnixMilli(f.Time) }

// newRecord converts a line of the audit to a record.
func newRecord(line []byte, after audit.Cursor, format event.Format) (r record, err error) {
	r = record{cursor: after, uid: uid(after)}
	if err := json.Unmarshal(line, &r.members); err != nil {
		return r, fmt.Errorf("record %d isn't JSON: %w", after.Sequence, err)
	}
	r.Time = cmp.Or(r.EndTime, r.Time)
	if format.PassesThrough(line) {
		r.body = bytes.Clone(bytes.TrimSuffix(line, []byte("\n")))
		return r, nil
	}
	e, err := event.Parse(line)
	if err != nil {
		return r, fmt.Errorf("record %d: %w", after.Sequence, err)
	}
	if format == event.Text {
		e.Suggest = "" // it takes several lines, and a record is one line
	}
	r.body = bytes.TrimSuffix(format.Append(nil, &e), []byte("\n"))
	return r, nil
}

// uid returns the uid of the record before a cursor.
func uid(c audit.Cursor) string { return c.Chain + "-" + strconv.FormatUint(c.Sequence, 10) }
