package audit

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// The maximum size of a chunk that is written and synced at a time, and the maximum distance of checkpoints.
const (
	chunkSize          = 4 << 20
	checkpointLines    = 1024
	checkpointInterval = time.Minute
)

// Spool is a spool that is open for writing, by one process. It isn't safe for concurrent use.
type Spool struct {
	Config
	stream   *event.Stream
	lock     *os.File
	head     *os.File
	key      key
	begin    recordPosition // where the spool begins
	finished []finishedFile // the finished files, the oldest first
	file     *os.File       // the current file; nil: a new one is needed
	number   uint64         // of the current file
	began    time.Time      // when the current file was created

	synced            position // the position up to which everything is on the disk
	buffered          position // the position after buf
	buf               []byte
	pendingGaps       []event.Event // gaps that the next chunk reports
	unreportedRemoval removed       // the removals among them, for the head

	fileUsage     userBytes // of the current file, on the disk
	pendingUsage  userBytes // in buf
	retained      int64     // bytes on the disk that must be kept
	retainedUsage userBytes
	overQuotaGaps map[string]*event.Event // by session, the gap of the events beyond the user's quota
	overQuota     uint64                  // how many events were dropped beyond quotas
	unsent        uint64                  // how many records were removed that some sink hadn't received
	inexact       uint64                  // how many losses have no known count

	onlyOpened bool // the head is marked as opened, and nothing has been written since
	torn       bool // the file may be longer than synced
	keyNamed   bool // the file ends with the checkpoint that names the next key
	opened     bool // the checkpoint "opened" has been written
	closed     bool // the checkpoint "closed" has been written
	marked     bool // the file next to the folder has the spool's id
	unsigned   int  // records since the last checkpoint
	signedAt   time.Time
}

// finishedFile is a finished file.
type finishedFile struct {
	number uint64
	size   int64
	first  link // of the first line
	usage  userBytes
}

// position is a position between two lines of a file.
type position struct {
	offset   int64
	sequence uint64 // of the previous line
	hash     hash   // of that line
	key      string // that the last checkpoint names
}

// Append writes events. It returns how many of them are on the disk, the first ones.
func (s *Spool) Append(events []event.Event) (n int, err error) {
	for n < len(events) {
		m, err := s.writeChunk(events[n:])
		if s.freeSpace(err) {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	if len(s.pendingGaps) > 0 { // a user has reached his quota
		_, _ = s.writeChunk(nil) // or the next chunk has them
	}
	return n, nil
}

// writeChunk writes and syncs events up to chunkSize, and the pending gaps.
func (s *Spool) writeChunk(events []event.Event) (n int, err error) {
	if err := s.checkFolder(); err != nil {
		return 0, err
	}
	if err := s.ensureCapacity(); err != nil {
		return 0, err
	}
	s.measure()
	s.signOpened()
	for i := range s.pendingGaps {
		s.add(&s.pendingGaps[i])
	}
	reported, dropped := map[string]bool{}, []*event.Event(nil)
	for ; n < len(events) && len(s.buf) < chunkSize; n++ {
		e := &events[n]
		if s.exceedsQuota(e) {
			dropped = append(dropped, e)
			continue
		}
		s.addOverQuotaGap(e.Session, reported)
		s.add(e)
	}
	if s.unsigned >= checkpointLines || s.unsigned > 0 && time.Since(s.signedAt) >= checkpointInterval {
		s.checkpoint("time", "")
	}
	gone := s.unreportedRemoval
	s.unreportedRemoval = removed{}
	if err := s.commit(); err != nil {
		s.unreportedRemoval = gone
		return 0, err
	}
	s.pendingGaps = nil
	s.countDropped(reported, dropped)
	return n, nil
}

// signOpened writes the checkpoint that must precede everything else that this writer writes.
func (s *Spool) signOpened() {
	if !s.opened {
		s.checkpoint("opened", "")
	}
}

// add appends an event's line to the buffer. No line exceeds maxLine, because package event truncates long fields.
func (s *Spool) add(e *event.Event) {
	out := s.stream.Number(e, s.buffered.sequence+1)
	out.Previous = s.buffered.hash.String()
	before := len(s.buf)
	s.buf = event.OCSF.Append(s.buf, &out)
	s.buffered.offset += int64(len(s.buf) - before)
	s.buffered.sequence++
	_, s.buffered.hash, _ = cutHash(s.buf[before:], fingerprintStart, fingerprintEnd)
	s.unsigned++
	if e.FromOrdinaryUser() {
		s.pendingUsage[e.Owner] += int64(len(s.buf) - before)
	}
}

// exactGap returns a gap with an exact count.
func exactGap(n uint64, why string) event.Event {
	return event.Event{Kind: event.Gap, Mechanism: "spool", Count: n, Extra: map[string]string{"why": why, "exact": "true"}}
}

// checkpoint signs all records before it. At a file's end, it names the next key.
func (s *Spool) checkpoint(what, nextKey string) {
	l := link{chain: s.stream.ID, sequence: s.buffered.sequence + 1, previous: s.buffered.hash}
	e := event.Event{Kind: event.Checkpoint, Mechanism: "spool", Extra: map[string]string{
		"what": what, "key": s.key.public(), "signature": s.key.sign(checkpointText(l, nextKey)),
	}}
	s.buffered.key = s.key.public()
	if nextKey != "" {
		e.Extra["next_key"], s.buffered.key = nextKey, nextKey
	}
	s.add(&e)
	s.unsigned, s.signedAt = 0, time.Now()
}

// commit writes the buffer to the disk, completely or not at all.
func (s *Spool) commit() error {
	err := s.truncateTorn()
	if err == nil && len(s.buf) > 0 {
		s.torn = true
		if _, err = s.file.Write(s.buf); err == nil {
			err = s.file.Sync()
		}
	}
	added := s.pendingUsage
	s.buf, s.pendingUsage = s.buf[:0], userBytes{}
	if err != nil {
		s.buffered = s.synced
		s.unsigned = checkpointLines // the buffer may have had a checkpoint
		_ = s.truncateTorn()         // or before the next write
		return fmt.Errorf("write the audit: %w", err)
	}
	s.fileUsage.add(added)
	s.retainedUsage.add(added)
	s.torn, s.onlyOpened, s.opened, s.synced = false, false, true, s.buffered
	_ = s.writeHead() // an old head is harmless, and the next write replaces it
	s.mark()
	return nil
}

// truncateTorn removes the rest of a failed write. Data that wasn't synced may be missing on the disk even if a later fsync
// succeeds.
func (s *Spool) truncateTorn() error {
	if !s.torn {
		return nil
	}
	if err := s.file.Truncate(s.synced.offset); err != nil {
		return err
	}
	s.torn = false
	return nil
}

// writeHead writes the positions of the spool's beginning and end.
func (s *Spool) writeHead() error {
	end := recordPosition{s.number, s.synced.offset, s.synced.sequence, s.synced.hash.String()}
	h := head{Chain: s.stream.ID, Begin: s.begin, End: end, Closed: s.closed, Opened: s.onlyOpened, UnreportedRemoval: s.unreportedRemoval}
	if s.file != nil {
		h.Began = s.began.Unix()
	}
	return h.write(s.head, s.key)
}

// syncHead writes the head and syncs it.
func (s *Spool) syncHead() error {
	if err := errors.Join(s.writeHead(), s.head.Sync()); err != nil {
		return fmt.Errorf("write the audit's head: %w", err)
	}
	return nil
}

// rotate finishes the file and creates the next one. After a failure, it continues where it failed.
func (s *Spool) rotate() error {
	if s.file != nil {
		if err := s.finish(); err != nil {
			return err
		}
	}
	number := s.number + 1
	f, err := os.OpenFile(s.path(fileName(number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("create a file of the audit: %w", err)
	}
	s.allowReaders(f.Name(), 0o640)
	s.file, s.number, s.began = f, number, time.Now()
	s.buffered = s.synced
	return syncFolder(s.Folder)
}

// finish ends the file. Its last record names the next key, which then replaces the current one. The head is signed with the next
// key before that is stored, so that the key on the disk, or its successor, has always signed the head on the disk.
func (s *Spool) finish() error {
	if !s.keyNamed {
		next := s.key.next()
		s.checkpoint("end of file", next.public())
		if err := s.commit(); err != nil {
			return err
		}
		s.key, s.keyNamed = next, true
	}
	if err := s.syncHead(); err != nil {
		return err
	}
	if err := s.key.save(s.Folder); err != nil {
		return err
	}
	p, err := s.inspectFile(s.number)
	if err != nil {
		return err
	}
	p.usage, s.fileUsage = s.fileUsage, userBytes{}
	s.finished = append(s.finished, p)
	s.saveUsage()
	_ = s.file.Close() // it is synced
	s.file, s.keyNamed, s.synced.offset = nil, false, 0
	return nil
}

// Close closes the spool, and records that, so that a later crash is distinguishable.
func (s *Spool) Close() error {
	err := s.checkFolder()
	if s.file != nil && !s.keyNamed {
		err = errors.Join(err, s.end())
	}
	return errors.Join(err, s.release())
}

// end writes the pending gaps and the final checkpoint.
func (s *Spool) end() error {
	for {
		s.signOpened()
		for i := range s.pendingGaps {
			s.add(&s.pendingGaps[i])
		}
		for session := range s.overQuotaGaps {
			s.addOverQuotaGap(session, map[string]bool{})
		}
		s.checkpoint("closed", "")
		gone := s.unreportedRemoval
		s.unreportedRemoval, s.closed = removed{}, true
		err := s.commit()
		if err == nil {
			return s.head.Sync()
		}
		s.unreportedRemoval, s.closed = gone, false
		if !s.freeSpace(err) {
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
