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

// stateName is the file in the shipper's folder that says how far each sink is: for its next start, for toolguardd, and for people.
const stateName = "state.json"

// Status is how a sink is. Counts go on when the shipper is started again.
type Status struct {
	Type      string       `json:"type"`
	Cursor    audit.Cursor `json:"cursor"`
	Delivered uint64       `json:"delivered"`         // records, gaps among them
	Gaps      uint64       `json:"gaps"`              // of them, those in other records' places
	Rejected  uint64       `json:"refused"`           // records that the receiver won't take: a gap each
	Retries   uint64       `json:"retries"`           // failures
	Last      time.Time    `json:"last,omitzero"`     // when something was delivered
	Oldest    time.Time    `json:"oldest,omitzero"`   // when the first of the records happened that wait
	Failing   string       `json:"failing,omitempty"` // why nothing is delivered
	Since     time.Time    `json:"since,omitzero"`
}

// State is how all sinks are.
type State struct {
	Sinks map[string]Status `json:"sinks"`
	End   audit.Cursor      `json:"end"` // where the audit ended when this was written
}

// Behind is how many records a sink hasn't got.
func (s State) Behind(name string) uint64 {
	at := s.Sinks[name].Cursor
	if at.Chain != "" && at.Chain != s.End.Chain {
		return s.End.Sequence
	}
	return s.End.Sequence - min(at.Sequence, s.End.Sequence)
}

// ReadState reads what a shipper keeps in its folder; nothing where it has never been.
func ReadState(folder string) (s State, err error) {
	err = audit.ReadState(filepath.Join(folder, stateName), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("see how far the sinks are: %w: remove it to send each of them everything again", err)
	}
	return s, nil
}

// state is the State of a shipper that runs.
type state struct {
	lock   *os.File // held as long as it's open
	folder string
	spool  string
	log    *slog.Logger

	mu    sync.Mutex
	sinks map[string]Status
	dirty bool
}

// openState takes up the state for the sinks that there are now. A sink that isn't any more is forgotten, so that the audit doesn't keep
// anything for it. Only one shipper uses a folder.
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

// current is how all is.
func (s *state) current() State {
	end, _ := audit.End(s.spool) // none: the workers say so
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{maps.Clone(s.sinks), end}
}

// write has the state on the disk.
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
	out.SetEscapeHTML(false) // six bytes for one, and there's a bound: audit.ReadState
	err := out.Encode(s.current())
	if err == nil {
		err = audit.Replace(filepath.Join(s.folder, stateName), text.Bytes())
	}
	if err != nil {
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
		return fmt.Errorf("keep how far the sinks are: %w", err)
	}
	return nil
}

// writeChanges writes the state whenever it has changed, until the end. What isn't written when the shipper is killed is sent again.
func (s *state) writeChanges(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		sleep(ctx, 250*time.Millisecond)
		if err := s.write(); err != nil && err.Error() != logged {
			logged = err.Error()
			s.log.Error(logged + ": after the next start the sinks get again what they have")
		}
	}
}

// Names are the sinks'.
func (s State) Names() iter.Seq[string] { return maps.Keys(s.Sinks) }
