package audit

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// How much is written and synced at a time, at most, and how far checkpoints are apart.
const (
	pieceSize       = 4 << 20
	checkpointLines = 1024
	checkpointTime  = time.Minute
)

// Spool is a spool that is written to. One goroutine at a time uses it, and one process.
type Spool struct {
	Config
	stream *event.Stream
	lock   *os.File
	head   *os.File
	key    key
	begin  place     // where the spool begins
	parts  []part    // the finished files, the oldest first
	file   *os.File  // that is written to; nil: none, a new one is needed
	number uint64    // of that file
	began  time.Time // when it was begun

	done position // what is on the disk
	now  position // with what is in buf
	buf  []byte
	owed []event.Event // gaps that are to be told with the next piece
	gone removed       // of them, what the head knows of

	taken    taken // of the file that is written to, on the disk
	adding   taken // in buf
	held     int64 // of what must be kept, on the disk
	heldBy   taken
	withheld map[string]*event.Event // by session, the gap that its user's share has made
	beyond   uint64                  // how many events were withheld
	unsent   uint64                  // how many records were removed that some sink hadn't got
	unknown  uint64                  // how many losses can't be counted

	fresh   bool // the head says that it's opened, and nothing has been written since
	torn    bool // there may be more in the file than what is done
	turned  bool // the file ends with the checkpoint that names its successor's key
	opened  bool // it begins with a checkpoint, what was written since
	closed  bool // a checkpoint says so
	marked  bool // what is beside the folder says which spool was in it
	lines   int  // since the last checkpoint
	stamped time.Time
}

// part is a finished file.
type part struct {
	number uint64
	size   int64
	first  link // of its first line
	taken  taken
}

// position is a place between two lines of a file.
type position struct {
	offset   int64
	sequence uint64 // of the line before
	hash     hash   // of that line
	key      string // that the last checkpoint before speaks for
}

// Append writes events. It returns how many of them are on the disk: the first ones.
func (s *Spool) Append(events []event.Event) (n int, err error) {
	for n < len(events) {
		m, err := s.piece(events[n:])
		if s.madeRoom(err) {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	if len(s.owed) > 0 { // since somebody has come to the end of his share
		_, _ = s.piece(nil) // or it's told with the next ones
	}
	return n, nil
}

// piece writes as many events as are synced at a time.
func (s *Spool) piece(events []event.Event) (n int, err error) {
	if err := s.inPlace(); err != nil {
		return 0, err
	}
	if err := s.makeRoom(); err != nil {
		return 0, err
	}
	s.reckon()
	s.begins()
	for i := range s.owed {
		s.add(&s.owed[i])
	}
	told, withheld := map[string]bool{}, []*event.Event(nil)
	for ; n < len(events) && len(s.buf) < pieceSize; n++ {
		e := &events[n]
		if s.withholds(e) {
			withheld = append(withheld, e)
			continue
		}
		s.addWithheld(e.Session, told)
		s.add(e)
	}
	if s.lines >= checkpointLines || s.lines > 0 && time.Since(s.stamped) >= checkpointTime {
		s.checkpoint("time", "")
	}
	gone := s.gone
	s.gone = removed{}
	if err := s.commit(); err != nil {
		s.gone = gone
		return 0, err
	}
	s.owed = nil
	s.settle(told, withheld)
	return n, nil
}

// begins signs that the spool is written to again, before anything else is. What doesn't begin so wasn't written by it.
func (s *Spool) begins() {
	if !s.opened {
		s.checkpoint("opened", "")
	}
}

// add puts an event's line into the buffer. None is longer than maxLine: package event cuts what is long.
func (s *Spool) add(e *event.Event) {
	out := s.stream.Number(e, s.now.sequence+1)
	out.Previous = s.now.hash.String()
	before := len(s.buf)
	s.buf = event.OCSF.Append(s.buf, &out)
	s.now.offset += int64(len(s.buf) - before)
	s.now.sequence++
	_, s.now.hash, _ = cutHash(s.buf[before:], fingerprintStart, fingerprintEnd)
	s.lines++
	if e.FromOrdinaryUser() {
		s.adding[e.Owner] += int64(len(s.buf) - before)
	}
}

// lost is a gap with an exact count.
func lost(n uint64, why string) event.Event {
	return event.Event{Kind: event.Gap, Mechanism: "spool", Count: n, Extra: map[string]string{"why": why, "exact": "true"}}
}

// checkpoint signs all that is before, and names the key that comes after the file's end.
func (s *Spool) checkpoint(what, nextKey string) {
	l := link{chain: s.stream.ID, sequence: s.now.sequence + 1, previous: s.now.hash}
	e := event.Event{Kind: event.Checkpoint, Mechanism: "spool", Extra: map[string]string{
		"what": what, "key": s.key.public(), "signature": s.key.sign(checkpointText(l, nextKey)),
	}}
	s.now.key = s.key.public()
	if nextKey != "" {
		e.Extra["next_key"], s.now.key = nextKey, nextKey
	}
	s.add(&e)
	s.lines, s.stamped = 0, time.Now()
}

// commit has what is in the buffer on the disk, all of it or nothing.
func (s *Spool) commit() error {
	err := s.repair()
	if err == nil && len(s.buf) > 0 {
		s.torn = true
		if _, err = s.file.Write(s.buf); err == nil {
			err = s.file.Sync()
		}
	}
	added := s.adding
	s.buf, s.adding = s.buf[:0], taken{}
	if err != nil {
		s.now = s.done
		s.lines = checkpointLines // if one was among it, it isn't there
		_ = s.repair()            // else before the next
		return fmt.Errorf("write the audit: %w", err)
	}
	s.taken.add(added)
	s.heldBy.add(added)
	s.torn, s.fresh, s.opened, s.done = false, false, true, s.now
	_ = s.writeHead() // one that couldn't be written is behind the spool, which harms nobody, and the next one isn't
	s.mark()
	return nil
}

// repair takes away what a write that failed has left. What wasn't synced isn't known to be on the disk, even where a later fsync succeeds.
func (s *Spool) repair() error {
	if !s.torn {
		return nil
	}
	if err := s.file.Truncate(s.done.offset); err != nil {
		return err
	}
	s.torn = false
	return nil
}

// writeHead says where the spool ends.
func (s *Spool) writeHead() error {
	end := place{s.number, s.done.offset, s.done.sequence, s.done.hash.String()}
	h := head{Chain: s.stream.ID, Begin: s.begin, End: end, Closed: s.closed, Opened: s.fresh, Gone: s.gone}
	if s.file != nil {
		h.Began = s.began.Unix()
	}
	return h.write(s.head, s.key)
}

// keepHead has it on the disk, too.
func (s *Spool) keepHead() error {
	if err := errors.Join(s.writeHead(), s.head.Sync()); err != nil {
		return fmt.Errorf("say where the audit ends: %w", err)
	}
	return nil
}

// rotate ends the file and begins another one. What has been done when it fails isn't done again.
func (s *Spool) rotate() error {
	if s.file != nil {
		if err := s.finish(); err != nil {
			return err
		}
	}
	number := s.number + 1
	f, err := os.OpenFile(s.path(fileName(number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("begin a file of the audit: %w", err)
	}
	s.share(f.Name(), 0o640)
	s.file, s.number, s.began = f, number, time.Now()
	s.now = s.done
	return syncFolder(s.Folder)
}

// finish ends the file: its last line names the next key, which takes the place of the one before. The head is signed with it before it's
// kept, so that on the disk is always one that the key that is kept has signed, or the next one.
func (s *Spool) finish() error {
	if !s.turned {
		next := s.key.next()
		s.checkpoint("end of file", next.public())
		if err := s.commit(); err != nil {
			return err
		}
		s.key, s.turned = next, true
	}
	if err := s.keepHead(); err != nil {
		return err
	}
	if err := s.key.save(s.Folder); err != nil {
		return err
	}
	p, err := s.look(s.number)
	if err != nil {
		return err
	}
	p.taken, s.taken = s.taken, taken{}
	s.parts = append(s.parts, p)
	s.saveTaken()
	_ = s.file.Close() // all of it is synced
	s.file, s.turned, s.done.offset = nil, false, 0
	return nil
}

// Close ends the spool in a way that the next one knows from a crash.
func (s *Spool) Close() error {
	err := s.inPlace()
	if s.file != nil && !s.turned {
		err = errors.Join(err, s.end())
	}
	return errors.Join(err, s.release())
}

// end writes what is still to be told, and that nothing comes after.
func (s *Spool) end() error {
	for {
		s.begins()
		for i := range s.owed {
			s.add(&s.owed[i])
		}
		for session := range s.withheld {
			s.addWithheld(session, map[string]bool{})
		}
		s.checkpoint("closed", "")
		gone := s.gone
		s.gone, s.closed = removed{}, true
		err := s.commit()
		if err == nil {
			return s.head.Sync()
		}
		s.gone, s.closed = gone, false
		if !s.madeRoom(err) {
			return err
		}
	}
}

func (s *Spool) release() (err error) {
	for _, f := range []*os.File{s.file, s.head, s.lock} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
