package ship

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// source reads the audit for one sink, as records in order. A gap precedes a record if records before it are missing.
type source struct {
	reader         *audit.Reader
	format         event.Format
	stream         *event.Stream // for gaps
	at             audit.Cursor  // after the last record
	began          audit.Cursor  // before the first record of a sink without a cursor
	pending        *record       // the record after a gap
	why            string        // the error since the last record
	replaced       bool          // the audit has been replaced since
	lastUnreadable bool          // the last record was unreadable, and is a gap
}

func newSource(folder string, from audit.Cursor, format event.Format, version string) (*source, error) {
	stream, err := event.NewStream()
	if err != nil {
		return nil, err
	}
	stream.Version = version
	return &source{reader: audit.NewReader(folder, from), format: format, stream: stream, at: from}, nil
}

// next returns the next record, or io.EOF if there is none yet.
func (s *source) next() (record, error) {
	if r := s.pending; r != nil {
		s.pending = nil
		return *r, nil
	}
	var removed *audit.RemovedError
	var damage *audit.DamageError
	var replaced *audit.ReplacedError
	for {
		line, err := s.reader.Next()
		switch {
		case errors.As(err, &replaced):
			s.replaced, s.why = true, err.Error()
		case errors.As(err, &removed), errors.As(err, &damage):
			s.why = err.Error()
		case err != nil:
			return record{}, err
		default:
			return s.record(line), nil
		}
	}
}

// record converts a line to a record. If records before it are missing, it returns the gap, and the next call returns the record.
func (s *source) record(line []byte) record {
	previous, at := s.at, s.reader.Cursor()
	why, replaced, lastUnreadable := s.why, s.replaced, s.lastUnreadable
	s.at, s.why, s.replaced = at, "", false
	r, err := newRecord(line, at, s.format)
	if s.lastUnreadable = err != nil; s.lastUnreadable {
		r = s.gap(at, 1, err.Error()+": see 'toolguard audit verify'")
	}
	before := audit.Cursor{Chain: at.Chain, File: at.File, Offset: at.Offset - int64(len(line)), Sequence: at.Sequence - 1}
	fresh, next := previous.Chain == "", at.Sequence == previous.Sequence+1
	switch {
	case why == "" && fresh:
		s.began = before
		return r
	case next && (why == "" || lastUnreadable): // an unreadable record has no link to check
		return r
	}
	s.pending = &r
	switch {
	case replaced || fresh:
		return s.gap(before, 0, why)
	case next:
		return s.gap(before, 0, fmt.Sprintf("record %d differs from the one that was read before: %s", previous.Sequence, why))
	case at.Sequence <= previous.Sequence:
		return s.gap(before, 0, fmt.Sprintf("the audit was restored to a state before record %d, and continues with different records", previous.Sequence))
	}
	missing := at.Sequence - 1 - previous.Sequence
	return s.gap(before, missing, fmt.Sprintf("records %d to %d: %s", previous.Sequence+1, at.Sequence-1, why))
}

// gap returns a gap of missing records before a cursor. If missing is 0, their number is unknown.
func (s *source) gap(after audit.Cursor, missing uint64, why string) record {
	e := s.stream.Number(&event.Event{
		Kind: event.Gap, Mechanism: "ship", Count: missing,
		Extra: map[string]string{"why": why, "exact": strconv.FormatBool(missing > 0)},
	}, max(after.Sequence, 1))
	e.UID = uid(after) + "-gap"
	r, _ := newRecord(event.OCSF.Append(nil, &e), after, s.format) // it has the right form
	r.uid, r.gap = e.UID, true
	return r
}
