package event

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"time"
)

// Stream numbers events without gaps and masks their secrets. It isn't safe for concurrent use.
type Stream struct {
	Version string // toolguard's, for the product field
	ID      string // the first part of the events' uids

	boot string
	host string
	next uint64
}

// NewStream returns a stream with a random ID.
func NewStream() (*Stream, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	var id [8]byte
	rand.Read(id[:])
	return &Stream{boot: boot, host: host, ID: hex.EncodeToString(id[:]), next: 1}, nil
}

// Next returns the event as it is reported, with the next number. It doesn't change e. A zero time becomes the current time.
func (s *Stream) Next(e *Event) Event {
	out := s.Number(e, s.next)
	s.next++
	return out
}

// Number is Next with a number that the caller chooses.
func (s *Stream) Number(e *Event, sequence uint64) Event {
	out := e.Clean()
	if out.Time.IsZero() {
		out.Time = time.Now()
	}
	out.Boot, out.Host, out.Version = s.boot, s.host, s.Version
	out.Sequence = sequence
	out.UID = s.ID + "-" + strconv.FormatUint(sequence, 10)
	return out
}
