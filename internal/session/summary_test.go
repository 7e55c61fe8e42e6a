package session

import (
	"fmt"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
)

// However many different things were denied, a summary remembers some, and counts all.
func TestSummaryIsBounded(t *testing.T) {
	var s Summary
	const kinds = 3 * MostListed
	for range 2 {
		for i := range kinds {
			s.Add(&event.Event{Kind: event.Denial, Session: "s1", Resource: "fs", Capability: "read", Target: fmt.Sprint("/x/", i), Reason: "no_rule", Count: 2})
		}
		s.Add(&event.Event{Kind: event.Denial, Session: "another", Resource: "fs", Capability: "read", Target: "/y", Reason: "no_rule"})
	}
	if len(s.at) != MostListed || len(s.Result.Denials) != MostListed {
		t.Errorf("%d denials are remembered, and %d listed", len(s.at), len(s.Result.Denials))
	}
	if s.Session != "s1" || s.Events != 2*kinds || s.Result.Total != 4*kinds || s.Others != 4*(kinds-MostListed) || s.Result.Denials[0].Count != 4 {
		t.Errorf("session %s: %d events, %d denials, of them %d others; the first one %d times", s.Session, s.Events, s.Result.Total, s.Others, s.Result.Denials[0].Count)
	}
}
