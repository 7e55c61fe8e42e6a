package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"time"
)

// Limits bound a spool. A zero is its default.
type Limits struct {
	Size     int64         // of all files together
	FileSize int64         // after which another one begins, at most a quarter of Size
	FileAge  time.Duration // likewise
	Drop     bool          // when there's no room: the oldest file goes, instead of no session being begun
}

// DefaultLimits hold more than half a million events.
var DefaultLimits = Limits{Size: 1 << 30, FileSize: 64 << 20, FileAge: 24 * time.Hour}

// set fills in what isn't said.
func (l Limits) set() Limits {
	if l.Size <= 0 {
		l.Size = DefaultLimits.Size
	}
	if l.FileSize <= 0 {
		l.FileSize = DefaultLimits.FileSize
	}
	if l.FileAge <= 0 {
		l.FileAge = DefaultLimits.FileAge
	}
	l.FileSize = min(l.FileSize, l.Size/4)
	return l
}

// FullError says that there's no room left in a spool.
type FullError struct {
	Folder     string
	Used, Size int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s holds %d of %d bytes: raise [audit] size in toolguardd's settings, or let the oldest files go with on_full = \"drop\"",
		e.Folder, e.Used, e.Size)
}

// makeRoom has a file to write to, and room in it.
func (s *Spool) makeRoom() error {
	old := s.done.offset > 0 && time.Since(s.began) >= s.Limits.FileAge
	if s.file == nil || s.turned || s.done.offset >= s.Limits.FileSize || old {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	for s.used() >= s.Limits.Size {
		if !s.removeOldest(0) {
			return &FullError{s.Folder, s.used(), s.Limits.Size}
		}
	}
	return nil
}

// nearlyFull tells whether what is left is for the sessions that run already.
func (s *Spool) nearlyFull() error {
	if used := s.used(); !s.Limits.Drop && used >= s.Limits.Size/10*9 && !s.shipped() {
		return &FullError{s.Folder, used, s.Limits.Size}
	}
	return nil
}

func (s *Spool) used() int64 {
	used := s.done.offset
	for _, p := range s.parts {
		used += p.size
	}
	return used
}

// madeRoom tells whether something was removed for what failed because the disk is full.
func (s *Spool) madeRoom(err error) bool {
	return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) && s.removeOldest(s.least())
}

// removeOldest removes the oldest file, where that may be: every sink has it, or it's to be dropped, which is told, and leaves at least so much.
func (s *Spool) removeOldest(least int64) bool {
	shipped := s.shipped()
	drop := s.Limits.Drop && len(s.parts) > 0 && s.used()-s.parts[0].size >= least
	return (shipped || drop) && s.removeFirst(shipped, "to make room")
}

// least is what stays when the disk is full, be it others who fill it: they'd have all of the spool removed, a file for each event.
func (s *Spool) least() int64 {
	size := s.Limits.Size
	var disk syscall.Statfs_t
	if syscall.Statfs(s.Folder, &disk) == nil {
		size = min(size, int64(disk.Blocks)*int64(disk.Bsize))
	}
	return size / 2
}

// prune removes the oldest files until the others are no larger than keep.
func (s *Spool) prune(keep int64) error {
	if s.used() > keep && s.done.offset > keep {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	for s.used() > keep && s.removeFirst(s.shipped(), "by 'toolguard audit prune'") {
	}
	_, err := s.piece(nil)
	return err
}

// removeFirst removes the oldest file, and tells why.
func (s *Spool) removeFirst(shipped bool, reason string) bool {
	if len(s.parts) == 0 {
		return false
	}
	gone := s.parts[0]
	next, ok := s.second()
	if !ok {
		return false
	}
	missing := missingFiles(s.begin.File, gone.number, next.number)
	stand, err := s.standOf(gone.number)
	if err != nil {
		return false
	}
	stand.Inexact = stand.Inexact || missing != ""
	records := removed{s.begin.Sequence + 1, next.first.sequence - 1, shipped && missing == "", stand}
	before, untold := s.begin, s.gone
	s.begin, s.gone = place{next.number, 0, next.first.sequence - 1, next.first.previous.String()}, untold.and(records)
	err = s.keepHead() // first, or the file would be missed
	if err == nil {
		err = os.Remove(s.path(fileName(gone.number)))
	}
	if err != nil {
		s.begin, s.gone = before, untold
		return false
	}
	if !shipped && len(s.behind()) > 0 {
		s.unsent += records.Last - records.First + 1
	}
	if s.parts = s.parts[1:]; len(s.parts) == 0 {
		s.lines = checkpointLines // what vouched for the key is gone
	}
	s.owed = append(s.owed, records.told(fmt.Sprintf(", in %s, were removed %s%s", fileName(gone.number), reason, missing)))
	return true
}

const othersRemoved = "; of them somebody else had removed "

// missingFiles says which files before another one aren't there, but for the one that is removed: nobody else's removal is told as the spool's.
func missingFiles(first, gone, next uint64) string {
	var names []string
	if first < gone {
		names = append(names, fileNames(first, gone-1))
	}
	if gone+1 < next {
		names = append(names, fileNames(gone+1, next-1))
	}
	if names == nil {
		return ""
	}
	return othersRemoved + strings.Join(names, " and ")
}

func fileNames(first, last uint64) string {
	if first == last {
		return fileName(first)
	}
	return fileName(first) + " to " + fileName(last)
}

// second is the file after the oldest one; ok is false where that can't be said.
func (s *Spool) second() (p part, ok bool) {
	switch {
	case len(s.parts) > 1:
		p = s.parts[1]
	case s.file == nil:
	case s.done.offset == 0:
		p = part{number: s.number, first: link{chain: s.stream.ID, sequence: s.done.sequence + 1, previous: s.done.hash}}
	default:
		p, _ = s.look(s.number)
	}
	return p, p.first.sequence > s.begin.Sequence+1
}

// shipped tells whether every sink, of one at least, has the oldest file. It's the shipper's word: a false one makes room as Drop does, with
// another text. What can't be true isn't taken for it.
func (s *Spool) shipped() bool { return len(s.parts) > 0 && s.parts[0].number < s.shippedTo() }

// shippedTo is the first file that not every sink has; 0: none says so.
func (s *Spool) shippedTo() (to uint64) {
	if s.Cursors == "" {
		return 0
	}
	all, err := ReadCursors(s.Cursors)
	if err != nil {
		return 0
	}
	to = math.MaxUint64
	for _, c := range all {
		if c.Chain != s.stream.ID || c.File > s.number {
			return 0
		}
		to = min(to, c.File)
	}
	if len(all) == 0 {
		return 0
	}
	return to
}

// behind is how many records each sink hasn't got.
func (s *Spool) behind() map[string]float64 {
	if s.Cursors == "" {
		return nil
	}
	all, err := ReadCursors(s.Cursors)
	if err != nil {
		return nil
	}
	by := map[string]float64{}
	for sink, c := range all {
		if c.Chain == s.stream.ID && c.Sequence <= s.done.sequence {
			by[sink] = float64(s.done.sequence - c.Sequence)
		} else {
			by[sink] = float64(s.done.sequence) // it's of another spool
		}
	}
	return by
}

// look looks at a file: its size and its first line.
func (s *Spool) look(number uint64) (p part, err error) {
	f, err := openRegular(s.path(fileName(number)))
	if err != nil {
		return p, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	line, err := readLine(bufio.NewReaderSize(f, 4096))
	if errors.Is(err, errLong) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil {
		return p, err
	}
	first, _ := parseLink(line) // of one that isn't a spool's, nothing is known
	return part{number: number, size: info.Size(), first: first}, nil
}
