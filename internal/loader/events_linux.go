package loader

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"
)

// Listen begins to tell f every event of the session, one at a time, until End. f must not wait.
func (s *Session) Listen(f func(Event)) {
	s.reading = make(chan error, 1)
	s.emit = func(record []byte) {
		id, ev, err := decode(record, booted())
		if err == nil && id == s.id { // else of a session that had this ring before
			f(ev)
		}
	}
	go func() { s.reading <- s.events.run(s.emit) }()
}

// unlisten ends Listen. What comes from now on stays in the ring.
func (s *Session) unlisten() error {
	if s.reading == nil {
		return nil
	}
	_ = s.events.file.SetReadDeadline(time.Unix(1, 0))
	return <-s.reading
}

// giveRing lets other sessions have the ring, and returns the records that are still in it. It's called with the kernel's lock held, until which
// no other session may have the ring: one that gets it passes over everything that it finds in it (begin).
func (s *Session) giveRing() (rest [][]byte, err error) {
	ring := s.at.Ring
	atomic.StoreUint32(&s.at.Ring, noRing)
	if s.Counts().Living > 0 {
		err = s.k.grace(ring, s.ring) // a program may be writing into it
	}
	if s.reading == nil {
		return nil, err
	}
	err = errors.Join(err, s.events.read(func(p *pages) {
		p.drain(func(record []byte) { rest = append(rest, bytes.Clone(record)) })
	}))
	return rest, err
}
