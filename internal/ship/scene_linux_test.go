package ship

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

// timeout is how long a test waits.
const timeout = time.Minute

// scene is an audit, and a shipper's folder and log.
type scene struct {
	t     *testing.T
	spool *audit.Spool
	cfg   Config
	log   *childtest.Output
	n     int // events so far
}

func newScene(t *testing.T, limits audit.Limits, sinks ...Sink) *scene {
	t.Helper()
	s := &scene{t: t, log: &childtest.Output{}, cfg: Config{Spool: t.TempDir(), State: t.TempDir(), Sinks: sinks, Version: "test"}}
	childtest.Must(t, s.cfg.check())
	s.open(limits)
	return s
}

func (s *scene) open(limits audit.Limits) {
	s.t.Helper()
	spool, err := audit.Open(audit.Config{Folder: s.cfg.Spool, Version: "test", Limits: limits})
	childtest.Must(s.t, err)
	s.spool = spool
	s.t.Cleanup(func() { _ = spool.Close() })
}

// record records denials, each of another file.
func (s *scene) record(n int, change ...func(*event.Event)) {
	s.t.Helper()
	list := make([]event.Event, n)
	for i := range list {
		s.n++
		list[i] = event.Event{
			Kind: event.Denial, Session: "s1", Resource: "fs", Capability: "read", Target: "/x/" + strconv.Itoa(s.n), Reason: "no_rule", Errno: "EACCES",
			Process: []event.Process{{PID: 7, UID: 1000, Exe: "/usr/bin/cat", Comm: "cat", Argv: []string{"cat", "--token", "canary-argv"}}},
		}
		for _, c := range change {
			c(&list[i])
		}
	}
	if n, err := s.spool.Append(list); err != nil || n != len(list) {
		s.t.Fatal(n, err)
	}
}

var quick = pace{poll: 5 * time.Millisecond, first: 5 * time.Millisecond, max: 50 * time.Millisecond}

// start ships until the returned function is called.
func (s *scene) start() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, s.cfg, slog.New(slog.NewTextHandler(s.log, nil)), quick) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				s.t.Errorf("the shipper: %v", err)
			}
		})
	}
	s.t.Cleanup(stop)
	return stop
}

// deliver ships until all records are delivered to every sink.
func (s *scene) deliver() {
	s.t.Helper()
	stop := s.start()
	s.waitDelivered()
	stop()
}

// serve starts an HTTP server for as long as a test runs.
func serve(t *testing.T, h http.HandlerFunc) (url string) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// lines returns the lines of the audit.
func (s *scene) lines() (all []string) {
	s.t.Helper()
	r := audit.NewReader(s.cfg.Spool, audit.Cursor{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		childtest.Must(s.t, err)
		all = append(all, strings.TrimSuffix(string(line), "\n"))
	}
}

// wait waits for a condition.
func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	if !childtest.Eventually(so) {
		t.Fatalf("%s: not after a minute", what)
	}
}

// waitDelivered waits until all records are delivered to every sink.
func (s *scene) waitDelivered() {
	s.t.Helper()
	wait(s.t, "all is delivered", func() bool {
		st, err := ReadState(s.cfg.State)
		childtest.Must(s.t, err)
		end, err := audit.End(s.cfg.Spool)
		childtest.Must(s.t, err)
		for _, sink := range s.cfg.Sinks {
			if st.Sinks[sink.Name].Cursor.Sequence < end.Sequence {
				return false
			}
		}
		return true
	})
}

// receivedEvent has the members of an event that a receiver needs.
type receivedEvent struct {
	Metadata struct {
		UID      string
		Sequence uint64
	}
	Count    uint64
	Unmapped struct {
		Kind, Mechanism string
		Extra           map[string]string
	}
}

func parse(t *testing.T, line string) (e receivedEvent) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return e
}

// checkArrived checks that a receiver got everything, in order except for repetitions, which must be identical.
func checkArrived(t *testing.T, got, want []string) {
	t.Helper()
	first := map[string]string{}
	var in []string
	for _, line := range got {
		uid := parse(t, line).Metadata.UID
		if before, again := first[uid]; again {
			if before != line {
				t.Errorf("%s arrived as two different records", uid)
			}
			continue
		}
		first[uid] = line
		in = append(in, line)
	}
	for i := range max(len(in), len(want)) {
		switch {
		case i >= len(in):
			t.Fatalf("%d of %d arrived, the first missing one: %s", len(in), len(want), want[i])
		case i >= len(want):
			t.Fatalf("an extra record arrived: %s", in[i])
		case in[i] != want[i]:
			t.Fatalf("record %d: got\n%s\nwant\n%s", i, in[i], want[i])
		}
	}
}

func fileLines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	childtest.Must(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
