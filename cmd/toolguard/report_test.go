package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session"
)

var must = childtest.Must

// TestReportIsBounded: however many different things were denied, some are listed, and all are counted.
func TestReportIsBounded(t *testing.T) {
	var in []byte
	const kinds = 3 * session.MostListed
	for round := range 2 {
		for i := range kinds {
			e := event.Event{Kind: event.Denial, Session: "s1", Resource: "fs", Capability: "read", Target: fmt.Sprint("/x/", i), Reason: "no_rule", Count: 2}
			e.Process = []event.Process{{PID: 1, UID: 0, Exe: "/bin/sh"}}
			in = event.OCSF.Append(in, &e)
			if round == 0 {
				e.Resource, e.Target, e.Count = "env", fmt.Sprint("V", i), 1
				in = event.OCSF.Append(in, &e)
			}
		}
	}
	a := &app{in: bytes.NewReader(in)}
	s := session.Summary{}
	must(t, a.eachEvent(nil, "", "-", s.Add))
	j := output.SummaryJSON(&s)
	if len(j.Denials) != session.MostListed || len(j.Env) != session.MostListed || len(s.Result.Denials) != session.MostListed {
		t.Errorf("%d denials and %d variables are listed, %d kept", len(j.Denials), len(j.Env), len(s.Result.Denials))
	}
	if j.Total != 4*kinds || j.Others != 4*(kinds-session.MostListed)+kinds-session.MostListed || j.Denials[0].Count != 4 || s.Result.Denials[0].Process != nil {
		t.Errorf("%d, of them %d others; the first one %d times", j.Total, j.Others, j.Denials[0].Count)
	}
	out, text := plainScreen()
	out.Summary(&s)
	if !strings.Contains(text.String(), "\n  and 10000 denials of other kinds, beyond the first 1000: ") {
		t.Error(text)
	}
	a.in = strings.NewReader(strings.Repeat("x", longestEvent+1))
	if err := a.eachEvent(nil, "", "-", s.Add); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}
