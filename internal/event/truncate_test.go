package event

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTruncated checks that an event with long fields fits in a line of the audit, and that paths aren't truncated.
func TestTruncated(t *testing.T) {
	const longest = 1 << 20 // of a line: package audit
	bad := strings.Repeat("\x01", longest)
	e := fullEvent()
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Kind", "UID", "Boot", "Host", "Version", "Previous": // the stream's
		default:
			if f := v.Field(i); f.Kind() == reflect.String {
				f.SetString(bad)
			}
		}
	}
	e.Resource, e.Degraded, e.Extra = "fs", []string{"a", bad, bad}, map[string]string{"why": bad, "to": bad, "from": bad}
	e.Process = nil
	for range 40 {
		e.Process = append(e.Process, Process{PID: 1, Exe: bad[:4096], Comm: bad[:16], Argv: []string{bad[:8192]}})
	}
	short := e.truncated()
	short = redact(short)
	line := OCSF.Append(nil, &short)
	if len(line) > longest || len(line) < longest/2 {
		t.Errorf("the line has %d bytes", len(line))
	}
	if short.size() > 256<<10 {
		t.Errorf("it takes %d bytes of memory", short.size())
	}
	if e.Tool != bad || e.Degraded[1] != bad || e.Extra["to"] != bad || len(e.Process) != 40 {
		t.Error("the event itself was changed")
	}
	for _, n := range []int{0, 1, 4096 + 256} {
		path := "/" + strings.Repeat("ä", n/2)
		fine := denial("fs", "rename or link", path)
		fine.Asked, fine.Extra = path, map[string]string{"to": path}
		fine.Process[0].Exe = path
		if got := fine.truncated(); !reflect.DeepEqual(got, fine) {
			t.Errorf("%d bytes of a path are changed: %+v", n, got)
		}
	}
}

// TestClean checks that Clean truncates command lines before it searches them for secrets, which is slow, and that it does so once.
func TestClean(t *testing.T) {
	long := append([]string{"sh", "-c", "--token", "abc"}, slices.Repeat([]string{strings.Repeat("x", 100)}, 1000)...)
	e := denial("fs", "read", "/x")
	e.Process = slices.Repeat([]Process{{PID: 1, Argv: long}}, 33)
	out := e.Clean()
	for i, p := range out.Process {
		words, bytes := maxAncestorArgs, maxAncestorLine
		if i == 0 {
			words, bytes = maxArgs, maxCommandLine
		}
		if len(p.Argv) > words+1 || p.size() > bytes+3 || p.size() < bytes/2 || p.Argv[3] != "***" {
			t.Errorf("process %d: %q", i, p.Argv)
		}
	}
	if again := out.Clean(); &again.Process[0] != &out.Process[0] {
		t.Error("cleaned twice")
	}
	if e.Process[0].Argv[3] != "abc" {
		t.Error("the event itself was changed")
	}
}
