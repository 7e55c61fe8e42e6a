//go:build linux

package net

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// However many are refused, each is in an event's count or in a gap's, and the session isn't kept waiting.
func TestFlood(t *testing.T) {
	needs(t, "python3")
	p := newPlace(t, "", allow("allowed.test"))
	got := outcomeOf(t, p.guarded(python+`'import socket
n = 0
s = socket.socket()
for i in range(30000):
    try: s.connect(("`+deniedIP+`", 5432 + i % 9))
    except PermissionError: n += 1
print(n)'`))
	if got.said != "30000\n" {
		t.Fatalf("%q", got.said)
	}
	f, err := os.Open(p.events)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts := map[string]uint64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		e := struct {
			Count    uint64
			Unmapped struct{ Kind, Mechanism string }
		}{Count: 1}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Unmapped.Mechanism, "netguard") || e.Unmapped.Mechanism == "queue" { // which a slow machine fills
			counts[e.Unmapped.Kind] += e.Count
		}
	}
	if counts["denial"] == 0 || counts["denial"]+counts["gap"] != 30000 { // on a slow machine there's no gap
		t.Errorf("%v of 30000", counts)
	}
}
