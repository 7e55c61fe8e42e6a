package audit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// TestSize checks that a nearly full spool rejects new sessions, and stores the events of running ones until it is full. Lost
// events are counted.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	l := Start(Config{Folder: dir, Limits: Limits{Size: 128 << 10}})
	var full *FullError
	n := 0
	for ; l.Ready() == nil && n < 1000; n++ {
		must(t, recordOne(l, n))
	}
	if err := l.Ready(); !errors.As(err, &full) || full.Used < 110<<10 {
		t.Fatalf("after %d: %v", n, err)
	}
	ok := n
	for ok < 1000 && recordOne(l, ok) == nil {
		ok++
	}
	if ok == n || ok == 1000 {
		t.Errorf("nearly full with %d, full with %d", n, ok)
	}
	for i := range 9 {
		e := denial(ok + 1 + i)
		l.Record(&e)
	}
	if err := l.Sync(); !errors.As(err, &full) {
		t.Error(err)
	}
	l.SetLimits(Limits{Size: 1 << 20})
	must(t, recordOne(l, 2000))
	must(t, l.Ready())
	if missing, err := l.Close(); missing != 10 || !errors.As(err, &full) {
		t.Errorf("%d missing: %v", missing, err)
	}
	if r := sound(t, dir); r.Lost != 10 || r.Inexact != 0 {
		t.Errorf("%+v", r)
	}
	if got := targets(t, dir); len(got) != ok+1 {
		t.Errorf("%d of %d", len(got), ok+1)
	}
}

// TestDrop checks that the oldest file is removed, and that a gap has the number of its events.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Size: 128 << 10, Drop: true})
	for i := range 300 {
		appendAll(t, s, denials(i, 1))
	}
	closeSpool(t, s)
	r, got := sound(t, dir), targets(t, dir)
	if r.Removed == 0 || r.Lost+uint64(len(got)) != 300 || r.First != r.Removed+1 || r.Inexact != 0 {
		t.Errorf("%d %+v", len(got), r)
	}
	if len(got) == 0 || got[len(got)-1] != 299 {
		t.Error(got)
	}
}

// TestCountLosses checks that a removed file counts with each event's count and with the gaps in it.
func TestCountLosses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	list := denials(0, 2)
	list[1].Count, list[1].Target = 100_000, `/x ,"count":7`
	exec := denial(0)
	exec.Kind = event.Exec
	gap := event.Event{Kind: event.Gap, Count: 50, Execs: 3, Extra: map[string]string{"exact": "true", "why": "x"}}
	appendAll(t, s, append(list, exec, gap, event.Event{Kind: event.SessionEnd, Session: "s1"}))
	if got, err := s.countLosses(1); err != nil || got != (lossCount{Count: 100_052, Execs: 4}) {
		t.Errorf("%+v %v", got, err)
	}
	gap.Extra = map[string]string{"exact": "false"}
	gap.Count, gap.Execs = 0, 0
	appendAll(t, s, []event.Event{gap})
	must(t, s.rotate())
	if !s.removeFirst(false, "to free space") {
		t.Fatal("nothing was removed")
	}
	if e := s.pendingGaps[0]; e.Count != 100_052 || e.Execs != 4 || e.Extra["exact"] != "false" || s.unreportedRemoval.Lost.Count != e.Count {
		t.Errorf("%+v", e)
	}
	closeSpool(t, s)
	one, two := removed{First: 1, Last: 2, Shipped: true}, removed{First: 3, Last: 4}
	if got := one.plus(two); got != (removed{First: 1, Last: 4}) {
		t.Errorf("with records that some sink hasn't received: %+v", got)
	}
}

// TestMissingFiles checks that files that another process has removed are named, and the one that the spool removes isn't.
func TestMissingFiles(t *testing.T) {
	for _, c := range []struct {
		first, gone, next uint64
		want              string
	}{
		{1, 1, 2, ""},
		{1, 2, 3, fileName(1)},
		{1, 3, 4, fileName(1) + " to " + fileName(2)},
		{1, 1, 3, fileName(2)},
		{1, 1, 4, fileName(2) + " to " + fileName(3)},
		{1, 2, 4, fileName(1) + " and " + fileName(3)},
	} {
		if got := missingFiles(c.first, c.gone, c.next); strings.TrimPrefix(got, foreignRemoval) != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestRemovedAndKilled checks that a removal is reported once, whenever the writer is killed.
func TestRemovedAndKilled(t *testing.T) {
	for _, c := range []struct {
		name     string
		shipped  bool
		reported bool // before it's killed
		put      string
	}{
		{name: "after two files"},
		{name: "after two files that every sink has", shipped: true},
		{name: "before the second one is gone", put: fileName(2)},
		{name: "after the report, before the head is written", reported: true, put: headName},
		{name: "after the report", reported: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			fillSpool(t, dir)
			s := open(t, dir, Limits{Size: 1 << 20})
			appendAll(t, s, denials(200, 1))
			second := readFile(t, s.path(fileName(2)))
			for range 2 {
				if !s.removeFirst(c.shipped, "to free space") {
					t.Fatal("nothing is removed")
				}
			}
			head := readFile(t, s.path(headName))
			want := uint64(100 + 1 + 3)
			if c.reported {
				appendAll(t, s, denials(201, 1))
				want++
			}
			must(t, s.release())
			switch c.put {
			case headName:
				writeFile(t, s.path(headName), head)
			case fileName(2):
				writeFile(t, s.path(fileName(2)), second)
			}
			for i := range 3 {
				s = writeSpool(t, dir, Limits{Size: 1 << 20}, denials(210+i, 1))
			}
			r := sound(t, dir)
			if c.shipped {
				text := readFile(t, s.path(fileName(s.number)))
				if n := bytes.Count(text, []byte("every sink has them")); n != 1 || r.Lost > 0 {
					t.Errorf("reported %d times, %d lost", n, r.Lost)
				}
			} else if n := len(targets(t, dir)); r.Removed == 0 || r.Lost+uint64(n) != want {
				t.Errorf("of %d denials, %d exist and %d are reported as lost", want, n, r.Lost)
			}
		})
	}
}

// TestShipped checks that a file that every sink has is removed without a loss, and not before.
func TestShipped(t *testing.T) {
	dir := t.TempDir()
	fillSpool(t, dir)
	s := open(t, dir, Limits{Size: 40 << 10})
	s.Cursors = filepath.Join(t.TempDir(), "cursors")
	chain, end := s.stream.ID, s.number
	for _, text := range []string{
		"",
		"{}",
		`{"sinks":{}}`,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{"cursor":{"chain":"CHAIN","file":1}}}}`,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{}}}`,
		`{"sinks":{"a":{"cursor":{"chain":"another","file":END}}}}`,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":99}}}}`,
	} {
		writeCursors(t, s.Cursors, text, chain, end)
		var full *FullError
		if _, err := s.Append(denials(200, 1)); !errors.As(err, &full) {
			t.Errorf("%s: %v", text, err)
		}
	}
	writeCursors(t, s.Cursors, `{"sinks":{"a":{"cursor":{"chain":"CHAIN","sequence":3}},"b":{"cursor":{"chain":"x","sequence":3}},"c":{"cursor":{"chain":"CHAIN","sequence":1000}}}}`, chain, end)
	if all := float64(s.synced.sequence); !maps.Equal(s.behind(), map[string]float64{"a": all - 3, "b": all, "c": all}) {
		t.Errorf("of %v records: %v", all, s.behind())
	}
	writeCursors(t, s.Cursors, `{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{"cursor":{"chain":"CHAIN","file":END}}}}`, chain, end)
	appendAll(t, s, denials(200, 1))
	closeSpool(t, s)
	if r := sound(t, dir); r.Removed == 0 || r.Lost > 0 {
		t.Errorf("%+v", r)
	}
	if last, err := os.ReadFile(filepath.Join(dir, fileName(s.number))); err != nil || !strings.Contains(string(last), "the shipper reports that every sink has them") {
		t.Errorf("the removal isn't reported: %v", err)
	}
}

// TestUnsent checks that dropped records that some sink hasn't received are counted, and others aren't.
func TestUnsent(t *testing.T) {
	for text, want := range map[string]bool{
		`{"sinks":{}}`: false,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}}}}`:                                           false,
		`{"sinks":{"a":{"cursor":{"chain":"CHAIN","file":END}},"b":{"cursor":{"chain":"CHAIN","file":1}}}}`: true,
	} {
		dir := t.TempDir()
		fillSpool(t, dir)
		s := open(t, dir, Limits{Size: 40 << 10, Drop: true})
		s.Cursors = filepath.Join(t.TempDir(), "cursors")
		writeCursors(t, s.Cursors, text, s.stream.ID, s.number)
		before := s.begin.Sequence
		appendAll(t, s, denials(200, 1))
		if gone := s.begin.Sequence - before; gone == 0 || want && s.unsent != gone || !want && s.unsent != 0 {
			t.Errorf("%s: %d of %d", text, s.unsent, gone)
		}
		closeSpool(t, s)
	}
}

func writeCursors(t *testing.T, name, text, chain string, end uint64) {
	t.Helper()
	text = strings.NewReplacer("CHAIN", chain, "END", fmt.Sprint(end)).Replace(text)
	writeFile(t, name, []byte(text))
}

// TestHostileCursorFiles checks that a hostile cursor file neither blocks its reader nor is followed.
func TestHostileCursorFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	writeFile(t, good, []byte(`{"sinks":{"a":{"cursor":{"file":7}}}}`))
	if all, err := ReadCursors(good); err != nil || all["a"].File != 7 {
		t.Fatalf("%v %v", all, err)
	}
	endless := filepath.Join(dir, "endless")
	text := `{"sinks":{"a":{"cursor":{"file":7}}}}`
	text += strings.Repeat(" ", maxState-len(text))
	writeFile(t, endless, []byte(text))
	if _, err := ReadCursors(endless); err != nil {
		t.Error(err)
	}
	writeFile(t, endless, []byte(text+" "))
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	must(t, errors.Join(os.Symlink(good, link), syscall.Mkfifo(fifo, 0o600)))
	for _, name := range []string{endless, link, fifo, dir, "/dev/zero"} {
		if all, err := ReadCursors(name); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
	many := filepath.Join(dir, "many")
	sinks := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf(`,"%d":{}`, i)
		}
		return "{" + strings.TrimPrefix(text, ",") + "}"
	}
	for _, text := range []string{
		`{"sinks":` + sinks(8000) + "}",
		`{"sinks":` + sinks(MaxSinks+1) + "}",
		`{"sinks":{` + strings.Repeat(`"a":{},`, 8000) + `"a":{}}}`,
		`{"sinks":{}` + strings.Repeat(`,"sinks":{"a":{}}`, 4000) + "}",
		`{"sinks":[{}]}`,
		`{"sinks":{"a":1}}`,
	} {
		writeFile(t, many, []byte(text))
		if work := testing.AllocsPerRun(3, func() {
			if all, err := ReadCursors(many); err == nil {
				t.Errorf("%.40s: %d", text, len(all))
			}
		}); work > 1000 {
			t.Errorf("%.40s: it takes %.0f allocations", text, work)
		}
	}
	writeFile(t, many, []byte(`{"sinks":`+sinks(MaxSinks)+"}"))
	if all, err := ReadCursors(many); err != nil || len(all) != MaxSinks {
		t.Errorf("%d %v", len(all), err)
	}
}

// TestAge checks that a file is finished by its age, independent of the events' times.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{FileAge: time.Hour})
	at := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		list := denials(i, 2)
		list[0].Time, list[1].Time = at, at.AddDate(-30, 0, 0)
		at = at.AddDate(-1, 0, 0)
		appendAll(t, s, list)
		appendAll(t, s, denials(i, 1))
		s.began = s.began.Add(-time.Hour)
	}
	closeSpool(t, s)
	if r := sound(t, dir); r.Files != 3 {
		t.Errorf("%+v", r)
	}
}

// TestAgeOverRestarts checks that a file's age counts from its creation.
func TestAgeOverRestarts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{FileAge: time.Hour})
	appendAll(t, s, denials(0, 1))
	s.began = s.began.Add(-time.Hour)
	closeSpool(t, s)
	for i := range 2 {
		writeSpool(t, dir, Limits{FileAge: time.Hour}, denials(i+1, 1))
	}
	if r := sound(t, dir); r.Files != 2 {
		t.Errorf("%+v", r)
	}
}
