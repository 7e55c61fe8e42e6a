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

// mostFiles and mostRecords bound the numbers that are gone on from: there's no end of those that can be written into a folder.
const (
	mostFiles   = 1 << 32
	mostRecords = 1 << 62
)

// tail is what a spool's last file ends with.
type tail struct {
	number uint64
	size   int64
	chain  string
	first  link
	end    int64    // where the head says that the spool was closed, or opened since, if that's in this file
	opened bool     // it was: what is behind begins with a checkpoint
	own    bool     // the first line is one, of the spool's key
	closed bool     // it was, and what is behind isn't the spool's
	before position // of the first line that doesn't follow from the one before it
	bad    bool     // there is such a line
	open   bool     // it's the last one, and has no end
	last   position // after the last line that is one of a spool
	clean  bool     // which says that the spool was closed
	signer string   // the key that counts
	signed uint64   // the last record that a signature of it speaks for
}

// recover finds out where the spool ends, and puts in order what a crash has left there. What was on the disk before isn't touched,
// whatever has become of it.
func (s *Spool) recover(h head, known bool) error {
	list, err := files(s.Folder)
	if err != nil {
		return err
	}
	for _, n := range list {
		s.share(s.path(fileName(n)), 0o640)
	}
	t, list, err := s.lastFile(list, h, known)
	if err == nil && known {
		t, list, err = s.filesAfter(t, list, h)
	}
	if err != nil {
		return err
	}
	if err := s.beginStream(t, h, known); err != nil {
		return err
	}
	fresh := t.number == 0 || t.bad
	at := t.last
	switch {
	case t.bad && t.mayCut(h, known):
		at, fresh = t.before, false
		err = os.Truncate(s.path(fileName(t.number)), at.offset)
	case t.bad:
		s.owe(fmt.Sprintf("%s isn't as it was written, from byte %d on", fileName(t.number), t.before.offset))
		if known && at.sequence > h.End.Sequence { // whoever has written that
			at.sequence = h.End.Sequence
			at.hash, _ = parseHash(h.End.Hash)
		}
	}
	switch {
	case t.number > 0 && !known:
		s.owe("the file head was missing, damaged or not signed with the audit's key: records that were cut off before wouldn't have been missed" + t.unsigned(head{}, at))
	case t.number > 0 && !h.Closed: // not its last line: the one after it may have written none
		s.owe("the spool wasn't closed: what its writer had heard and not written is lost" + t.unsigned(h, at))
	}
	if known && h.Gone.First > 0 && at.sequence <= h.End.Sequence { // or what is after it tells
		s.gone = h.Gone
		s.owed = append(s.owed, h.Gone.told(" were removed, and the spool ended before that was told"))
	}
	if known && h.Chain == s.stream.ID && h.End.Sequence > at.sequence {
		s.owed = append(s.owed, lost(h.End.Sequence-at.sequence, fmt.Sprintf("records %d to %d had been written and aren't there any more",
			at.sequence+1, h.End.Sequence)))
		at.sequence, fresh = h.End.Sequence, true
		at.hash, _ = parseHash(h.End.Hash)
		s.number = max(s.number, h.End.File)
	}
	if k := s.key.next(); err == nil && at.key == k.public() { // it was stated, and not kept any more
		s.key, err = k, k.save(s.Folder)
	}
	if err == nil {
		err = s.resume(list, at, fresh)
	}
	s.beginAt(h, known)
	s.wasBegun(h, known)
	if err == nil {
		err = s.loadTaken()
	}
	return err
}

// owe tells of a loss that can't be counted.
func (s *Spool) owe(why string) {
	gap := lost(0, why)
	gap.Extra["exact"] = "false"
	s.owed = append(s.owed, gap)
	s.unknown++
}

// unsigned says which of the last records nothing speaks for but their hashes, which take no key to make.
func (t *tail) unsigned(h head, at position) string {
	from := max(t.signed, h.End.Sequence, max(t.first.sequence, 1)-1) + 1 // a file before this one ends with a signature
	if from <= at.sequence {
		return fmt.Sprintf("; %s kept, though it had signed nothing after", records(from, at.sequence))
	}
	return ""
}

// lastFile looks at the last file, as far as the head knows of it. Files of which nothing was ever on the disk for sure are removed.
func (s *Spool) lastFile(list []uint64, h head, known bool) (t tail, rest []uint64, err error) {
	for ; len(list) > 0; list = list[:len(list)-1] {
		n := list[len(list)-1]
		if known && n >= h.after() {
			continue // filesAfter looks at it
		}
		if n > mostFiles {
			if err := s.setAside(n); err != nil {
				return t, list, err
			}
			continue
		}
		s.number = max(s.number, n)
		if t, err = s.scan(n, h, known); err != nil || t.last.sequence > 0 || known && h.End.File == n && h.End.Offset > 0 {
			return t, list, err
		}
		if t.size > 0 && !known {
			return t, list, nil
		}
		if err := os.Remove(s.path(fileName(n))); err != nil {
			return t, list, err
		}
		s.number = n - 1
	}
	return tail{}, nil, nil
}

// filesAfter looks at files that the head doesn't know of: a crash may have kept it from being on the disk. Only what follows is the
// spool's; what doesn't is set aside, whoever has put it there.
func (s *Spool) filesAfter(t tail, list []uint64, h head) (tail, []uint64, error) {
	all, err := files(s.Folder)
	if err != nil {
		return t, list, err
	}
	s.number = max(s.number, h.after()-1)
	for _, n := range all {
		if n < h.after() {
			continue
		}
		next, err := s.scan(n, h, true)
		if err != nil {
			return t, list, err
		}
		switch {
		case !t.bad && !t.closed && n == s.number+1 && next.followsAfter(t, h):
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

// after is the number of the first file of which the head knows nothing.
func (h head) after() uint64 {
	if h.End.Offset == 0 {
		return h.End.File
	}
	return h.End.File + 1
}

// followsAfter tells whether a file's first line is the one after all that is before it.
func (t *tail) followsAfter(before tail, h head) bool {
	last, hash := h.End.Sequence, h.End.Hash
	if h.Opened && before.last.sequence <= last && !t.own {
		return false
	}
	if before.last.sequence > last {
		last, hash = before.last.sequence, before.last.hash.String()
	}
	return t.first.chain == h.Chain && t.first.sequence == last+1 && t.first.previous.String() == hash
}

// setAside takes a file that isn't the spool's out of its way.
func (s *Spool) setAside(number uint64) error {
	name := fileName(number)
	s.owe(name + " isn't of this audit, and was put into its folder: it's " + name + ".foreign now")
	return os.Rename(s.path(name), s.path(name+".foreign"))
}

// scan reads a file to its end.
func (s *Spool) scan(number uint64, h head, known bool) (t tail, err error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return t, err
	}
	defer f.Close()
	t.number, t.signer, t.end = number, s.key.public(), -1
	if known && (h.Closed || h.Opened) && number == h.End.File {
		t.end, t.opened = h.End.Offset, h.Opened
	}
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := readLine(r)
		if len(line) > 0 || errors.Is(err, errLong) {
			t.line(line)
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
	t.closed = t.closed || t.closedHere()
	return t, nil
}

// line takes the next line in; offsets count only as long as lines follow from each other.
func (t *tail) line(line []byte) {
	l, ok := parseLink(line)
	ok = ok && l.sequence < mostRecords
	e, signed := t.checkpoint(l, line)
	t.closed = t.closed || t.closedHere() || ok && t.opened && t.last.offset == t.end && !signed
	follows := t.last.sequence == 0 || !t.closed && l.chain == t.chain && l.sequence == t.last.sequence+1 && l.previous == t.last.hash
	if !t.bad && (!ok || !follows || t.closed) {
		t.bad, t.before, t.open = true, t.last, isTorn(line)
	} else {
		t.open = false
	}
	if !ok {
		return
	}
	if t.first.sequence == 0 {
		t.first, t.own = l, signed
	}
	t.chain, t.clean = l.chain, false
	t.last.offset += int64(len(line))
	t.last.sequence, t.last.hash = l.sequence, l.hash
	if e != nil {
		t.last.key = e.Key
		if e.NextKey != "" {
			t.last.key = e.NextKey
		}
		t.clean = e.What == "closed"
		if signed && !t.bad {
			t.signed = l.sequence
		}
	}
}

// checkpoint is what a checkpoint says; nil: it's none. It's signed with the key that counts, or by who knows whom.
func (t *tail) checkpoint(l link, line []byte) (x *toldExtra, signed bool) {
	e, ok := parseTold(line)
	if !ok || e.Unmapped.Kind != string(event.Checkpoint) {
		return nil, false
	}
	x = &e.Unmapped.Extra
	return x, x.Key == t.signer && verify(x.Key, checkpointText(l, x.NextKey), x.Signature)
}

// closedHere tells whether the line before was the spool's last one: what comes now isn't the spool's.
func (t *tail) closedHere() bool { return t.clean && !t.opened && t.last.offset == t.end }

// mayCut tells whether what doesn't follow was never said to be on the disk.
func (t *tail) mayCut(h head, known bool) bool {
	switch {
	case t.closed:
		return false
	case !known:
		return t.open
	case h.End.File == t.number:
		return t.before.offset >= h.End.Offset
	}
	return t.number > h.End.File
}

// beginStream goes on with the stream that is there, or begins one.
func (s *Spool) beginStream(t tail, h head, known bool) (err error) {
	if s.stream, err = event.NewStream(); err != nil {
		return err
	}
	s.stream.Version = s.Version
	switch {
	case known:
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

// resume makes the place the one to go on from, in a fresh file or the last one.
func (s *Spool) resume(list []uint64, at position, fresh bool) error {
	if !fresh {
		list = list[:len(list)-1]
	}
	for _, n := range list {
		p, err := s.look(n)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, p)
	}
	if fresh {
		at.offset = 0
		s.done, s.now = at, at
		return nil
	}
	f, err := os.OpenFile(s.path(fileName(s.number)), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	s.file, s.began, s.done, s.now = f, time.Now(), at, at
	return nil
}

// wasBegun is when the file that is gone on with was begun, or now at the latest, whatever the clock says.
func (s *Spool) wasBegun(h head, known bool) {
	if began := time.Unix(h.Began, 0); known && h.Began > 0 && h.End.File == s.number && began.Before(s.began) {
		s.began = began
	}
}

// beginAt is where the spool begins: as its head says, or else with the first file that is there.
func (s *Spool) beginAt(h head, known bool) {
	switch {
	case known:
		s.begin = h.Begin
		for len(s.parts) > 0 && s.parts[0].number < h.Begin.File { // a crash has kept it from being removed
			_ = os.Remove(s.path(fileName(s.parts[0].number)))
			s.parts = s.parts[1:]
		}
	case len(s.parts) > 0:
		p := s.parts[0]
		s.begin = place{p.number, 0, max(p.first.sequence, 1) - 1, p.first.previous.String()}
	default:
		s.begin = place{File: s.number + 1, Hash: hash{}.String()}
		if s.file != nil {
			if p, err := s.look(s.number); err == nil {
				s.begin = place{p.number, 0, p.first.sequence - 1, p.first.previous.String()}
			}
		}
	}
}
