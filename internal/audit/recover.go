package audit

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// The maximum file and record numbers from which a spool continues. A file planted in the folder may have any number.
const (
	maxFileNumber   = 1 << 32
	maxRecordNumber = 1 << 62
)

// tail is the state at the end of a spool's last file.
type tail struct {
	number           uint64
	size             int64
	chain            string
	first            link
	end              int64    // where the head says that the spool was closed, or opened since, if that is in this file; else -1
	opened           bool     // the spool was opened: records after end must begin with a checkpoint
	ownCheckpoint    bool     // the first line is a checkpoint with the spool's key
	closed           bool     // the spool was closed: records after end are foreign
	brokenAt         position // the position of the first line that doesn't follow from its predecessor
	broken           bool     // there is such a line
	unterminated     bool     // it is the last line, and has no newline
	last             position // after the last line that is a record
	closedCheckpoint bool     // that line is the checkpoint "closed"
	signer           string   // the spool's public key
	signed           uint64   // the last record that a signature of this key includes
}

// recover determines where the spool ends, and repairs the end after a crash. It doesn't change earlier content of the disk, even
// if it was tampered with.
func (s *Spool) recover(h head, trusted bool) error {
	list, err := files(s.Folder)
	if err != nil {
		return err
	}
	for _, n := range list {
		s.allowReaders(s.path(fileName(n)), 0o640)
	}
	t, list, err := s.lastFile(list, h, trusted)
	if err == nil && trusted {
		t, list, err = s.filesAfter(t, list, h)
	}
	if err != nil {
		return err
	}
	if err := s.openStream(t, h, trusted); err != nil {
		return err
	}
	fresh := t.number == 0 || t.broken
	at := t.last
	switch {
	case t.broken && t.mayTruncate(h, trusted):
		at, fresh = t.brokenAt, false
		err = os.Truncate(s.path(fileName(t.number)), at.offset)
	case t.broken:
		s.addInexactGap(fmt.Sprintf("%s isn't as it was written, from byte %d on", fileName(t.number), t.brokenAt.offset))
		if trusted && at.sequence > h.End.Sequence { // forged records
			at.sequence = h.End.Sequence
			at.hash, _ = parseHash(h.End.Hash)
		}
	}
	switch {
	case t.number > 0 && !trusted:
		s.addInexactGap("the file head was missing, damaged or not signed with the audit's key: records that were truncated before can't be detected" + t.unsignedText(head{}, at))
	case t.number > 0 && !h.Closed: // not closedCheckpoint: the next file may have been without records
		s.addInexactGap("the spool wasn't closed: events that its writer had received and not written are lost" + t.unsignedText(h, at))
	}
	if trusted && h.UnreportedRemoval.First > 0 && at.sequence <= h.End.Sequence { // otherwise a later record has reported it
		s.unreportedRemoval = h.UnreportedRemoval
		s.pendingGaps = append(s.pendingGaps, h.UnreportedRemoval.gap(" were removed, and the spool ended before that was reported"))
	}
	if trusted && h.Chain == s.stream.ID && h.End.Sequence > at.sequence {
		s.pendingGaps = append(s.pendingGaps, exactGap(h.End.Sequence-at.sequence, fmt.Sprintf("records %d to %d had been written and are missing",
			at.sequence+1, h.End.Sequence)))
		at.sequence, fresh = h.End.Sequence, true
		at.hash, _ = parseHash(h.End.Hash)
		s.number = max(s.number, h.End.File)
	}
	if k := s.key.next(); err == nil && at.key == k.public() { // a checkpoint names it, and it wasn't stored
		s.key, err = k, k.save(s.Folder)
	}
	if err == nil {
		err = s.resume(list, at, fresh)
	}
	s.setBegin(h, trusted)
	s.restoreAge(h, trusted)
	if err == nil {
		err = s.loadUsage()
	}
	return err
}

// addInexactGap reports a loss without a known count.
func (s *Spool) addInexactGap(why string) {
	gap := exactGap(0, why)
	gap.Extra["exact"] = "false"
	s.pendingGaps = append(s.pendingGaps, gap)
	s.inexact++
}

// unsignedText names the last records that no signature includes. They have only hashes, which need no key.
func (t *tail) unsignedText(h head, at position) string {
	from := max(t.signed, h.End.Sequence, max(t.first.sequence, 1)-1) + 1 // the previous file ends with a signature
	if from <= at.sequence {
		return fmt.Sprintf("; %s kept without a signature", records(from, at.sequence))
	}
	return ""
}

// lastFile scans the last file that the head knows. It removes files of which nothing was certainly on the disk.
func (s *Spool) lastFile(list []uint64, h head, trusted bool) (t tail, rest []uint64, err error) {
	for ; len(list) > 0; list = list[:len(list)-1] {
		n := list[len(list)-1]
		if trusted && n >= h.nextFile() {
			continue // filesAfter looks at it
		}
		if n > maxFileNumber {
			if err := s.setAside(n); err != nil {
				return t, list, err
			}
			continue
		}
		s.number = max(s.number, n)
		if t, err = s.scan(n, h, trusted); err != nil || t.last.sequence > 0 || trusted && h.End.File == n && h.End.Offset > 0 {
			return t, list, err
		}
		if t.size > 0 && !trusted {
			return t, list, nil
		}
		if err := os.Remove(s.path(fileName(n))); err != nil {
			return t, list, err
		}
		s.number = n - 1
	}
	return tail{}, nil, nil
}

// filesAfter scans files that the head doesn't know, because a crash may have kept it from the disk. Files that follow from the
// spool's end belong to it. It sets all others aside.
func (s *Spool) filesAfter(t tail, list []uint64, h head) (tail, []uint64, error) {
	all, err := files(s.Folder)
	if err != nil {
		return t, list, err
	}
	s.number = max(s.number, h.nextFile()-1)
	for _, n := range all {
		if n < h.nextFile() {
			continue
		}
		next, err := s.scan(n, h, true)
		if err != nil {
			return t, list, err
		}
		switch {
		case !t.broken && !t.closed && n == s.number+1 && next.followsAfter(t, h):
			t, list, s.number = next, append(list, n), n
		case next.size == 0:
			err = os.Remove(s.path(fileName(n)))
		default:
			err = s.setAside(n)
		}
		if err != nil {
			return t, list, err
		}
	}
	return t, list, nil
}

// nextFile returns the number of the first file that the head doesn't know.
func (h head) nextFile() uint64 {
	if h.End.Offset == 0 {
		return h.End.File
	}
	return h.End.File + 1
}

// followsAfter reports whether a file's first line follows from the end of the files before it.
func (t *tail) followsAfter(before tail, h head) bool {
	last, hash := h.End.Sequence, h.End.Hash
	if h.Opened && before.last.sequence <= last && !t.ownCheckpoint {
		return false
	}
	if before.last.sequence > last {
		last, hash = before.last.sequence, before.last.hash.String()
	}
	return t.first.chain == h.Chain && t.first.sequence == last+1 && t.first.previous.String() == hash
}

// setAside renames a file that isn't the spool's.
func (s *Spool) setAside(number uint64) error {
	name := fileName(number)
	s.addInexactGap(name + " isn't of this audit, and was placed in its folder: it was renamed to " + name + ".foreign")
	return os.Rename(s.path(name), s.path(name+".foreign"))
}

// scan reads a file to its end.
func (s *Spool) scan(number uint64, h head, trusted bool) (t tail, err error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return t, err
	}
	defer f.Close()
	t.number, t.signer, t.end = number, s.key.public(), -1
	if trusted && (h.Closed || h.Opened) && number == h.End.File {
		t.end, t.opened = h.End.Offset, h.Opened
	}
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := readLine(r)
		if len(line) > 0 || errors.Is(err, errLong) {
			t.addLine(line)
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil && !errors.Is(err, errLong) {
			return t, err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	t.size = info.Size()
	t.closed = t.closed || t.atClosedEnd()
	return t, nil
}

// addLine adds the next line. The offset counts only while each line follows from its predecessor.
func (t *tail) addLine(line []byte) {
	l, ok := parseLink(line)
	ok = ok && l.sequence < maxRecordNumber
	e, signed := t.checkpoint(l, line)
	t.closed = t.closed || t.atClosedEnd() || ok && t.opened && t.last.offset == t.end && !signed
	follows := t.last.sequence == 0 || !t.closed && l.chain == t.chain && l.sequence == t.last.sequence+1 && l.previous == t.last.hash
	if !t.broken && (!ok || !follows || t.closed) {
		t.broken, t.brokenAt, t.unterminated = true, t.last, isTorn(line)
	} else {
		t.unterminated = false
	}
	if !ok {
		return
	}
	if t.first.sequence == 0 {
		t.first, t.ownCheckpoint = l, signed
	}
	t.chain, t.closedCheckpoint = l.chain, false
	t.last.offset += int64(len(line))
	t.last.sequence, t.last.hash = l.sequence, l.hash
	if e != nil {
		t.last.key = e.Key
		if e.NextKey != "" {
			t.last.key = e.NextKey
		}
		t.closedCheckpoint = e.What == "closed"
		if signed && !t.broken {
			t.signed = l.sequence
		}
	}
}

// checkpoint returns the members of a checkpoint, or nil. signed reports whether the spool's key has signed it.
func (t *tail) checkpoint(l link, line []byte) (x *spoolExtra, signed bool) {
	e, ok := parseSpoolEvent(line)
	if !ok || e.Unmapped.Kind != string(event.Checkpoint) {
		return nil, false
	}
	x = &e.Unmapped.Extra
	return x, x.Key == t.signer && verify(x.Key, checkpointText(l, x.NextKey), x.Signature)
}

// atClosedEnd reports whether the last line was the spool's closing checkpoint, so that what follows is foreign.
func (t *tail) atClosedEnd() bool { return t.closedCheckpoint && !t.opened && t.last.offset == t.end }

// mayTruncate reports whether the part that doesn't follow was never acknowledged as on the disk.
func (t *tail) mayTruncate(h head, trusted bool) bool {
	switch {
	case t.closed:
		return false
	case !trusted:
		return t.unterminated
	case h.End.File == t.number:
		return t.brokenAt.offset >= h.End.Offset
	}
	return t.number > h.End.File
}

// openStream continues the existing stream, or starts one.
func (s *Spool) openStream(t tail, h head, trusted bool) (err error) {
	if s.stream, err = event.NewStream(); err != nil {
		return err
	}
	s.stream.Version = s.Version
	switch {
	case trusted:
		s.stream.ID = h.Chain
	case t.chain != "":
		s.stream.ID = t.chain
	case h.Chain != "":
		s.stream.ID = h.Chain
	default:
		var id [8]byte
		rand.Read(id[:])
		s.stream.ID = hex.EncodeToString(id[:])
	}
	return nil
}

// resume continues the spool at a position, in a new file or the last one.
func (s *Spool) resume(list []uint64, at position, fresh bool) error {
	if !fresh {
		list = list[:len(list)-1]
	}
	for _, n := range list {
		p, err := s.inspectFile(n)
		if err != nil {
			return err
		}
		s.finished = append(s.finished, p)
	}
	if fresh {
		at.offset = 0
		s.synced, s.buffered = at, at
		return nil
	}
	f, err := os.OpenFile(s.path(fileName(s.number)), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	s.file, s.began, s.synced, s.buffered = f, time.Now(), at, at
	return nil
}

// restoreAge restores when the current file was created, unless that is in the future.
func (s *Spool) restoreAge(h head, trusted bool) {
	if began := time.Unix(h.Began, 0); trusted && h.Began > 0 && h.End.File == s.number && began.Before(s.began) {
		s.began = began
	}
}

// setBegin sets the spool's beginning from its head, or else from the first file.
func (s *Spool) setBegin(h head, trusted bool) {
	switch {
	case trusted:
		s.begin = h.Begin
		for len(s.finished) > 0 && s.finished[0].number < h.Begin.File { // a crash has prevented the removal
			_ = os.Remove(s.path(fileName(s.finished[0].number)))
			s.finished = s.finished[1:]
		}
	case len(s.finished) > 0:
		p := s.finished[0]
		s.begin = recordPosition{p.number, 0, max(p.first.sequence, 1) - 1, p.first.previous.String()}
	default:
		s.begin = recordPosition{File: s.number + 1, Hash: hash{}.String()}
		if s.file != nil {
			if p, err := s.inspectFile(s.number); err == nil {
				s.begin = recordPosition{p.number, 0, p.first.sequence - 1, p.first.previous.String()}
			}
		}
	}
}
