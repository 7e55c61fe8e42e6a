package ship

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// source reads the audit for one sink, as records in order. Where some are missing a gap comes first.
type source struct {
	reader *audit.Reader
	format event.Format
	stream *event.Stream // that gaps are made with
	at     audit.Cursor  // after the last record
	began  audit.Cursor  // before the first one of a sink that had none
	held   *record       // it comes after the gap
	why    string        // what was wrong since the last record
	other  bool          // the audit is another one since
	gapped bool          // the last record couldn't be read, and is a gap
}

func newSource(folder string, from audit.Cursor, format event.Format, version string) (*source, error) {
	stream, err := event.NewStream()
	if err != nil {
		return nil, err
	}
	stream.Version = version
	return &source{reader: audit.NewReader(folder, from), format: format, stream: stream, at: from}, nil
}

// next is the next record; io.EOF: there's none yet.
func (s *source) next() (record, error) {
	if r := s.held; r != nil {
		s.held = nil
		return *r, nil
	}
	var gone *audit.RemovedError
	var damage *audit.DamageError
	var other *audit.ReplacedError
	for {
		line, err := s.reader.Next()
		switch {
		case errors.As(err, &other):
			s.other, s.why = true, err.Error()
		case errors.As(err, &gone), errors.As(err, &damage):
			s.why = err.Error()
		case err != nil:
			return record{}, err
		default:
			return s.take(line), nil
		}
	}
}

// take makes a line a record. If there's a gap before it, that's the record, and the line's own is held.
func (s *source) take(line []byte) record {
	before, at := s.at, s.reader.Cursor()
	why, other, told := s.why, s.other, s.gapped
	s.at, s.why, s.other = at, "", false
	r, err := newRecord(line, at, s.format)
	if s.gapped = err != nil; s.gapped {
		r = s.gap(at, 1, err.Error()+": 'toolguard audit verify' tells more")
	}
	beside := audit.Cursor{Chain: at.Chain, File: at.File, Offset: at.Offset - int64(len(line)), Sequence: at.Sequence - 1}
	fresh, next := before.Chain == "", at.Sequence == before.Sequence+1
	switch {
	case why == "" && fresh:
		s.began = beside
		return r
	case next && (why == "" || told): // a record that is wrong doesn't hang together with the next one
		return r
	}
	s.held = &r
	switch {
	case other || fresh:
		return s.gap(beside, 0, why)
	case next:
		return s.gap(beside, 0, fmt.Sprintf("record %d isn't the one that was read before: %s", before.Sequence, why))
	case at.Sequence <= before.Sequence:
		return s.gap(beside, 0, fmt.Sprintf("the audit was put back to before record %d, and goes on with other ones", before.Sequence))
	}
	missing := at.Sequence - 1 - before.Sequence
	return s.gap(beside, missing, fmt.Sprintf("records %d to %d: %s", before.Sequence+1, at.Sequence-1, why))
}

// gap says in a sink that records are missing there: so many, the last one of them before the cursor; 0: it isn't known how many.
func (s *source) gap(after audit.Cursor, missing uint64, why string) record {
	e := s.stream.Number(&event.Event{
		Kind: event.Gap, Mechanism: "ship", Count: missing,
		Extra: map[string]string{"why": why, "exact": strconv.FormatBool(missing > 0)},
	}, max(after.Sequence, 1))
	e.UID = uid(after) + "-gap"
	r, _ := newRecord(event.OCSF.Append(nil, &e), after, s.format) // it's one of ours
	r.uid, r.gap = e.UID, true
	return r
}
