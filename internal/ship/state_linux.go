package ship

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/audit"
)

// stateName is the shipper's file with the state of each sink: for its next start, for toolguardd, and for `toolguard-ship status`.
const stateName = "state.json"

// Status is the status of a sink. Its counters continue after a restart.
type Status struct {
	Type      string       `json:"type"`
	Cursor    audit.Cursor `json:"cursor"`
	Delivered uint64       `json:"delivered"`         // records, gaps among them
	Gaps      uint64       `json:"gaps"`              // of them, gaps in place of records
	Rejected  uint64       `json:"refused"`           // records that the receiver rejects: a gap each
	Retries   uint64       `json:"retries"`           // failures
	Last      time.Time    `json:"last,omitzero"`     // when a record was last delivered
	Oldest    time.Time    `json:"oldest,omitzero"`   // when the first waiting record happened
	Failing   string       `json:"failing,omitempty"` // why nothing is delivered
	Since     time.Time    `json:"since,omitzero"`
}

// State is the status of all sinks.
type State struct {
	Sinks map[string]Status `json:"sinks"`
	End   audit.Cursor      `json:"end"` // the end of the audit at the time of writing
}

// Behind returns how many records a sink hasn't received.
func (s State) Behind(name string) uint64 {
	at := s.Sinks[name].Cursor
	if at.Chain != "" && at.Chain != s.End.Chain {
		return s.End.Sequence
	}
	return s.End.Sequence - min(at.Sequence, s.End.Sequence)
}

// ReadState reads the state in a shipper's folder. It is empty if no shipper has run.
func ReadState(folder string) (s State, err error) {
	err = audit.ReadState(filepath.Join(folder, stateName), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read the state of the sinks: %w: remove the file to send everything again to each sink", err)
	}
	return s, nil
}

// state is the State of a running shipper.
type state struct {
	lock   *os.File // locked while open
	folder string
	spool  string
	log    *slog.Logger

	mu    sync.Mutex
	sinks map[string]Status
	dirty bool
}

// openState loads the state for the current sinks. It drops former sinks, so that the audit doesn't retain records for them. Only
// one shipper may use a folder.
func openState(cfg Config, log *slog.Logger) (*state, error) {
	lock, err := os.OpenFile(filepath.Join(cfg.State, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("another shipper uses %s", cfg.State)
	}
	before, err := ReadState(cfg.State)
	if err != nil {
		return nil, err
	}
	s := &state{lock: lock, folder: cfg.State, spool: cfg.Spool, log: log, sinks: map[string]Status{}, dirty: true}
	for _, sink := range cfg.Sinks {
		status := before.Sinks[sink.Name]
		status.Type, status.Failing, status.Since, status.Oldest = sink.Type, "", time.Time{}, time.Time{}
		s.sinks[sink.Name] = status
	}
	return s, s.write()
}

func (s *state) update(name string, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.sinks[name]
	change(&status)
	if status != s.sinks[name] {
		s.sinks[name], s.dirty = status, true
	}
}

// current returns the current state.
func (s *state) current() State {
	end, _ := audit.End(s.spool) // the workers report an error
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{maps.Clone(s.sinks), end}
}

// write writes the state to the disk if it has changed.
func (s *state) write() error {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = false
	s.mu.Unlock()
	if !dirty {
		return nil
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetIndent("", "\t")
	out.SetEscapeHTML(false) // an escape takes six bytes, and audit.ReadState limits the size
	err := out.Encode(s.current())
	if err == nil {
		err = audit.Replace(filepath.Join(s.folder, stateName), text.Bytes())
	}
	if err != nil {
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
		return fmt.Errorf("store the state of the sinks: %w", err)
	}
	return nil
}

// writeChanges writes the state whenever it has changed, until ctx ends. If the shipper is killed, the records since the last write
// are sent again.
func (s *state) writeChanges(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		sleep(ctx, 250*time.Millisecond)
		if err := s.write(); err != nil && err.Error() != logged {
			logged = err.Error()
			s.log.Error(logged + ": after a restart, the sinks receive records again")
		}
	}
}

// Names returns the names of the sinks.
func (s State) Names() iter.Seq[string] { return maps.Keys(s.Sinks) }
