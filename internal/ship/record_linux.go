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

// record is one event on its way to one sink.
type record struct {
	cursor audit.Cursor // where the audit is read on from after it
	uid    string
	body   []byte // as the sink is told, without a newline
	gap    bool   // it stands for records that aren't there
	members
}

// members are what senders need to know of an event beside its text.
type members struct {
	Time     int64 // milliseconds; of several when the last one happened
	EndTime  int64 `json:"end_time"`
	Severity int   `json:"severity_id"`
	Message  string
	Device   struct{ Hostname string }
	Unmapped struct{ Kind, Session string }
}

func (f *members) at() time.Time { return time.UnixMilli(f.Time) }

// newRecord makes a record of a line of the audit.
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
		e.Suggest = "" // which takes lines of its own, and a record is one
	}
	r.body = bytes.TrimSuffix(format.Append(nil, &e), []byte("\n"))
	return r, nil
}

// uid is the one that the record before a cursor has.
func uid(c audit.Cursor) string { return c.Chain + "-" + strconv.FormatUint(c.Sequence, 10) }
