package ship

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
)

// TestFile checks that each event is in the file once and complete, across restarts, rotation and a torn line.
func TestFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "events.jsonl")
	childtest.Must(t, os.WriteFile(out, []byte(`{"torn`), 0o600))
	s := newScene(t, audit.Limits{}, Sink{Name: "f", Type: "file", Path: out, Batch: 7})
	s.record(20)
	stop := s.start()
	s.record(30)
	s.waitDelivered()
	childtest.Must(t, os.Rename(out, out+".1"))
	s.record(30)
	s.waitDelivered()
	stop()
	s.record(5)
	s.start()
	s.waitDelivered()
	before := fileLines(t, out+".1")
	if before[0] != `{"torn` {
		t.Errorf("%s", before[0])
	}
	got := append(before[1:], fileLines(t, out)...)
	want := s.lines()
	if len(got) != len(want) {
		t.Errorf("%d lines, not %d: after a proper stop no record is sent twice", len(got), len(want))
	}
	checkArrived(t, got, want)
}

// TestFileIsNew checks that the folder of a new file is synced before its records count as delivered.
func TestFileIsNew(t *testing.T) {
	dir := t.TempDir()
	out := &file{filepath.Join(dir, "events.jsonl")}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	childtest.Must(t, err)
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_OPEN|unix.IN_ONLYDIR); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true} {
		if i == 2 {
			childtest.Must(t, os.Rename(out.path, out.path+".1"))
		}
		if n, err := out.send(t.Context(), []record{{body: []byte("x")}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		opened := false // the folder itself, of which events have no name
		events := make([]byte, 4096)
		n, err := unix.Read(watch, events)
		for at := 0; err == nil && at < n; {
			opened = opened || binary.NativeEndian.Uint32(events[at+4:])&unix.IN_ISDIR != 0
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[at+12:]))
		}
		if opened != want {
			t.Errorf("%d: the folder was opened: %t", i, opened)
		}
	}
}

// TestFormats checks that each sink has its own format.
func TestFormats(t *testing.T) {
	dir := t.TempDir()
	sink := func(format string) Sink {
		return Sink{Name: strings.ReplaceAll(format, ".", "_"), Type: "file", Path: filepath.Join(dir, format), Format: format}
	}
	s := newScene(t, audit.Limits{}, sink("ocsf"), sink("ocsf-1.8"), sink("ecs"), sink("text"))
	s.record(3)
	s.start()
	s.waitDelivered()
	checkArrived(t, fileLines(t, filepath.Join(dir, "ocsf")), s.lines())
	older, ecs, text := fileLines(t, filepath.Join(dir, "ocsf-1.8")), fileLines(t, filepath.Join(dir, "ecs")), fileLines(t, filepath.Join(dir, "text"))
	if len(older) != 4 || !strings.Contains(older[2], `"version":"1.8.0"`) || !strings.Contains(older[2], `"record_integrity":{"prev_event":"`) ||
		strings.Contains(older[2], "attestation_list") || parse(t, older[2]).Metadata.Sequence != 3 {
		t.Errorf("%q", older)
	}
	if len(ecs) != 4 || !strings.Contains(ecs[2], `"@timestamp":`) || !strings.Contains(ecs[2], `/x/2`) {
		t.Errorf("%q", ecs)
	}
	if len(text) != 4 || !strings.Contains(text[2], "denied fs read /x/2  by cat[7]  no_rule  EACCES") {
		t.Errorf("%q", text)
	}
}

// TestGaps checks that removed and unreadable records become gaps, also after a restart.
func TestGaps(t *testing.T) {
	out := filepath.Join(t.TempDir(), "events.jsonl")
	s := newScene(t, audit.Limits{Size: 64 << 10, FileSize: 16 << 10, Drop: true}, Sink{Name: "f", Type: "file", Path: out})
	s.record(5)
	s.deliver()
	for range 100 {
		s.record(2)
	}
	files, err := filepath.Glob(filepath.Join(s.cfg.Spool, "*.jsonl"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[1])
	childtest.Must(t, err)
	at := bytes.Split(text, []byte("\n"))
	damaged := parse(t, string(at[2])).Metadata.Sequence
	at[2] = bytes.Replace(at[2], []byte("attestation_list"), []byte("attestation_lost"), 1)
	unreadable := parse(t, string(at[4])).Metadata.Sequence
	at[4] = bytes.Replace(at[4], []byte(`"time":`), []byte(`"time",`), 1)
	childtest.Must(t, os.WriteFile(files[1], bytes.Join(at, []byte("\n")), 0o600))
	s.start()
	s.waitDelivered()

	seen, gaps, last := map[uint64]bool{}, map[uint64]uint64{}, uint64(0)
	for _, line := range fileLines(t, out) {
		e := parse(t, line)
		if e.Unmapped.Mechanism == "ship" {
			gaps[e.Metadata.Sequence] = max(e.Count, 1)
			if !strings.HasSuffix(e.Metadata.UID, "-gap") || e.Unmapped.Extra["exact"] != "true" || e.Unmapped.Extra["why"] == "" {
				t.Error(line)
			}
		} else if seen[e.Metadata.Sequence] {
			t.Errorf("record %d arrived twice", e.Metadata.Sequence)
		}
		seen[e.Metadata.Sequence] = true
		if e.Metadata.Sequence <= last {
			t.Errorf("%d after %d", e.Metadata.Sequence, last)
		}
		if missing := e.Metadata.Sequence - last; missing != 1 && gaps[e.Metadata.Sequence] != missing {
			t.Errorf("from %d to %d, and a gap of %d", last, e.Metadata.Sequence, gaps[e.Metadata.Sequence])
		}
		last = e.Metadata.Sequence
	}
	if len(gaps) != 3 || gaps[damaged] != 1 || gaps[unreadable] != 1 {
		t.Errorf("%v, damaged are %d and %d", gaps, damaged, unreadable)
	}
}

// TestGapBeforeFirst checks that records that are removed before a sink's first delivery become a gap, also after a restart.
func TestGapBeforeFirst(t *testing.T) {
	away := filepath.Join(t.TempDir(), "away", "events.jsonl")
	s := newScene(t, audit.Limits{Size: 64 << 10, FileSize: 16 << 10, Drop: true}, Sink{Name: "away", Type: "file", Path: away})
	s.record(5)
	stop := s.start()
	wait(t, "it fails", func() bool { st, _ := ReadState(s.cfg.State); return st.Sinks["away"].Retries > 0 })
	stop()
	for range 100 {
		s.record(2)
	}
	childtest.Must(t, os.Mkdir(filepath.Dir(away), 0o700))
	s.start()
	s.waitDelivered()
	want, got := s.lines(), fileLines(t, away)
	gap, missing := parse(t, got[0]), parse(t, want[0]).Metadata.Sequence-1
	if gap.Unmapped.Mechanism != "ship" || gap.Unmapped.Extra["exact"] != "true" || gap.Count != missing || missing < 5 {
		t.Errorf("%d are missing: %s", missing, got[0])
	}
	checkArrived(t, got[1:], want)
}

// TestOlderCopy checks that a restored older copy with different records becomes a gap, even if they have the same number and
// length.
func TestOlderCopy(t *testing.T) {
	out, older := filepath.Join(t.TempDir(), "events.jsonl"), filepath.Join(t.TempDir(), "audit")
	s := newScene(t, audit.Limits{}, Sink{Name: "f", Type: "file", Path: out})
	s.n = 100
	s.record(5)
	childtest.Must(t, errors.Join(s.spool.Close(), os.CopyFS(older, os.DirFS(s.cfg.Spool))))
	s.open(audit.Limits{})
	s.record(5)
	s.deliver()
	n := len(fileLines(t, out))
	childtest.Must(t, errors.Join(s.spool.Close(), os.RemoveAll(s.cfg.Spool), os.CopyFS(s.cfg.Spool, os.DirFS(older))))
	s.open(audit.Limits{})
	s.record(5)
	childtest.Must(t, s.spool.Close())
	s.open(audit.Limits{})
	s.record(3)
	s.start()
	s.waitDelivered()
	want, got := s.lines(), fileLines(t, out)[n:]
	if gap := parse(t, got[0]); gap.Unmapped.Mechanism != "ship" || gap.Unmapped.Extra["exact"] != "false" || gap.Metadata.Sequence != uint64(n) {
		t.Error(got[0])
	}
	checkArrived(t, got[1:], want[n:])
}

// TestReplacedAudit checks that a new audit is sent from its beginning, after a gap.
func TestReplacedAudit(t *testing.T) {
	out := filepath.Join(t.TempDir(), "events.jsonl")
	s := newScene(t, audit.Limits{}, Sink{Name: "f", Type: "file", Path: out})
	s.record(5)
	s.deliver()
	n := len(fileLines(t, out))
	childtest.Must(t, s.spool.Close())
	childtest.Must(t, os.RemoveAll(s.cfg.Spool))
	s.open(audit.Limits{})
	s.record(2)
	s.start()
	want := s.lines()
	wait(t, "the other one arrives", func() bool { return len(fileLines(t, out)) >= n+1+len(want) })
	got := fileLines(t, out)[n:]
	gap := parse(t, got[0])
	if gap.Unmapped.Kind != "gap" || gap.Unmapped.Extra["exact"] != "false" || !strings.Contains(gap.Unmapped.Extra["why"], "replaced by another one") {
		t.Error(got[0])
	}
	checkArrived(t, got[1:], want)
}

// TestUnreachableSink checks that an unreachable sink loses nothing and doesn't delay another one, and checks the state of both.
func TestUnreachableSink(t *testing.T) {
	dir := t.TempDir()
	away := filepath.Join(dir, "away", "events.jsonl")
	s := newScene(t, audit.Limits{}, Sink{Name: "away", Type: "file", Path: away}, Sink{Name: "there", Type: "file", Path: filepath.Join(dir, "events.jsonl")})
	s.record(200)
	stop := s.start()
	var st State
	wait(t, "one has all, the other nothing", func() bool {
		st, _ = ReadState(s.cfg.State)
		return st.Behind("there") == 0 && st.Sinks["there"].Cursor.Sequence > 200 && st.Sinks["away"].Retries > 2
	})
	if a := st.Sinks["away"]; a.Cursor.Sequence != 0 || st.Behind("away") < 200 || a.Failing == "" || a.Since.IsZero() || a.Oldest.IsZero() || a.Delivered != 0 {
		t.Errorf("%+v %d", a, st.Behind("away"))
	}
	stop()
	if said := strings.Count(s.log.String(), "records wait"); said != 1 {
		t.Errorf("the same failure is logged %d times", said)
	}
	childtest.Must(t, os.Mkdir(filepath.Dir(away), 0o700))
	s.start()
	s.waitDelivered()
	checkArrived(t, fileLines(t, away), s.lines())
	wait(t, "all is well", func() bool {
		st, _ = ReadState(s.cfg.State)
		return st.Sinks["away"].Failing == "" && st.Behind("away") == 0
	})
}

// TestSecondShipper checks that a second shipper doesn't start: both would send everything.
func TestSecondShipper(t *testing.T) {
	s := newScene(t, audit.Limits{}, Sink{Name: "f", Type: "file", Path: filepath.Join(t.TempDir(), "x")})
	s.record(1)
	s.start()
	s.waitDelivered()
	err := run(t.Context(), s.cfg, slog.New(slog.DiscardHandler), quick)
	if err == nil || !strings.Contains(err.Error(), "another shipper uses") {
		t.Errorf("%v", err)
	}
}

// TestRemovedSink checks that the audit retains nothing for a sink that was removed from the settings.
func TestRemovedSink(t *testing.T) {
	dir := t.TempDir()
	sink := func(name string) Sink { return Sink{Name: name, Type: "file", Path: filepath.Join(dir, name)} }
	s := newScene(t, audit.Limits{}, sink("a"), sink("b"))
	s.record(3)
	s.deliver()
	all, err := audit.ReadCursors(filepath.Join(s.cfg.State, stateName))
	if err != nil || len(all) != 2 || all["a"].File != 1 || all["a"].Sequence < 3 {
		t.Errorf("%v %v", all, err)
	}
	s.cfg.Sinks = s.cfg.Sinks[:1]
	s.start()()
	if all, err = audit.ReadCursors(filepath.Join(s.cfg.State, stateName)); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
}

// TestBackoff checks that delays double up to a maximum, and that a receiver's Retry-After is respected up to a maximum.
func TestBackoff(t *testing.T) {
	p := pace{first: time.Second, max: time.Minute}
	for failures, most := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		for range 100 {
			if d := p.backoff(failures, nil); d > most*time.Second || d < most*time.Second/2 {
				t.Fatalf("%s after %d failures", d, failures)
			}
		}
	}
	for asked, want := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, time.Hour: maxRetryAfter} {
		if d := p.backoff(0, fmt.Errorf("x: %w", &retryLater{errors.New("x"), asked})); d != want {
			t.Errorf("%s for %s", d, asked)
		}
	}
}

// TestHostileState checks that a planted state file neither blocks the shipper nor is followed.
func TestHostileState(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, stateName)
	childtest.Must(t, unix.Mkfifo(name, 0o600))
	if _, err := ReadState(dir); err == nil || !strings.Contains(err.Error(), "isn't a regular file") {
		t.Error(err)
	}
	victim := filepath.Join(dir, "victim")
	childtest.Must(t, errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, name+".new"), audit.Replace(name, []byte("{}"))))
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("%s %v", text, err)
	}
	if _, err := ReadState(dir); err != nil {
		t.Error(err)
	}
}

// TestTruncatedReason checks that quotations of a receiver are truncated.
func TestTruncatedReason(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `\"mechanism\":\"ship\"`) {
			return
		}
		w.WriteHeader(http.StatusOK)
		fmt.Fprintf(w, `{"partialSuccess":{"rejectedLogRecords":"1%s"}}`, strings.Repeat("0", 100_000))
	})
	s := newScene(t, audit.Limits{}, Sink{Name: "otel", Type: "otlp", URL: url})
	s.record(20)
	s.start()
	s.waitDelivered()
	if n := len(s.log.String()); n == 0 || n > 20*4*maxReason {
		t.Errorf("%d bytes of log", n)
	}
	if info, err := os.Stat(filepath.Join(s.cfg.State, stateName)); err != nil || info.Size() > 8<<10 {
		t.Error(info, err)
	}
}
