package loader

import (
	"errors"
	"time"
)

// Listen begins to tell f every event of the session, one at a time, until End. f must not wait.
func (s *Session) Listen(f func(Event)) {
	s.heard = make(chan error, 1)
	s.tell = func(record []byte) {
		id, ev, err := decode(record, booted())
		if err == nil && id == s.id { // else of a session that had this ring before
			f(ev)
		}
	}
	go func() { s.heard <- s.events.run(s.tell) }()
}

// finish hears what is left.
func (s *Session) finish() error {
	if s.heard == nil {
		return nil
	}
	_ = s.events.file.SetReadDeadline(time.Unix(1, 0))
	err := <-s.heard
	return errors.Join(err, s.events.read(func(p *pages) { p.drain(s.tell) }))
}
