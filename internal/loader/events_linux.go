package loader

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"
)

// Listen calls f with every event of the session, one at a time, until End. f must not block.
func (s *Session) Listen(f func(Event)) {
	s.reading = make(chan error, 1)
	s.emit = func(record []byte) {
		id, ev, err := decode(record, booted())
		if err == nil && id == s.id { // otherwise of an earlier session with this ring
			f(ev)
		}
	}
	go func() { s.reading <- s.events.run(s.emit) }()
}

// unlisten ends Listen. Later events stay in the ring.
func (s *Session) unlisten() error {
	if s.reading == nil {
		return nil
	}
	_ = s.events.file.SetReadDeadline(time.Unix(1, 0))
	return <-s.reading
}

// releaseRing releases the ring for other sessions, and returns the records that are still in it. The caller holds the kernel's lock,
// since the next session with this ring skips all records in it (begin).
func (s *Session) releaseRing() (rest [][]byte, err error) {
	ring := s.at.Ring
	atomic.StoreUint32(&s.at.Ring, noRing)
	if s.Counts().Living > 0 {
		err = s.k.grace(ring, s.ring) // a running program may be writing to it
	}
	if s.reading == nil {
		return nil, err
	}
	err = errors.Join(err, s.events.read(func(p *pages) {
		p.drain(func(record []byte) { rest = append(rest, bytes.Clone(record)) })
	}))
	return rest, err
}
