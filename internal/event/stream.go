package event

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"time"
)

// Stream numbers events, without a gap, and masks what they mustn't tell. One goroutine calls it.
type Stream struct {
	Version string // toolguard's, for the product field
	ID      string // which stream it is: the first part of its events' uids

	boot string
	host string
	next uint64
}

// NewStream begins a stream.
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

// Next is an event as it's told: with the next number. The event itself isn't changed. A zero time becomes now.
func (s *Stream) Next(e *Event) Event {
	out := s.Number(e, s.next)
	s.next++
	return out
}

// Number is Next for who keeps the numbers himself.
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
