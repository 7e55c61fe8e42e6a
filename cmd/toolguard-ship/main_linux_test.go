package main

import (
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/ship"
)

// TestStatus checks that text of a shipper or a receiver contains no terminal controls and no newlines in the table.
func TestStatus(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	var b strings.Builder
	if err := writeStatus(&b, ship.State{Sinks: map[string]ship.Status{
		"fine":         {Type: "file", Delivered: 7, Last: now.Add(-time.Minute)},
		"\x1b]0;x\a\n": {Type: "\x1b[2J", Failing: "a\x1b[2J\nb", Since: now.Add(-time.Hour)},
	}}, now); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 4 || strings.ContainsAny(b.String(), "\x1b\a") {
		t.Errorf("%q", b.String())
	}
	for _, want := range []string{"fine", "1m0s ago", `\x1b]0;x\a\n`, `failing for 1h0m0s: a\x1b[2J\nb`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %q", want, b.String())
		}
	}
}
