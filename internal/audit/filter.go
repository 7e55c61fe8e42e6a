package audit

import "encoding/json"

// Filter selects records. Zero fields match everything.
type Filter struct {
	From, To      uint64 // records, by number
	Session, Kind string
}

// Matches reports whether the filter selects a line.
func (f Filter) Matches(line []byte) bool {
	l, ok := parseLink(line)
	if !ok || l.sequence < f.From || f.To != 0 && l.sequence > f.To {
		return false
	}
	if f.Session == "" && f.Kind == "" {
		return true
	}
	var e struct {
		Unmapped struct{ Session, Kind string }
	}
	if json.Unmarshal(line, &e) != nil {
		return false
	}
	return (f.Session == "" || e.Unmapped.Session == f.Session) && (f.Kind == "" || e.Unmapped.Kind == f.Kind)
}
