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

// Limits are the limits of a spool. Zero values select the defaults.
type Limits struct {
	Size     int64         // of all files together
	FileSize int64         // after which a new file is created, at most a quarter of Size
	FileAge  time.Duration // after which a new file is created
	Drop     bool          // when the spool is full: remove the oldest file instead of rejecting new sessions
}

// DefaultLimits suffice for more than half a million events.
var DefaultLimits = Limits{Size: 1 << 30, FileSize: 64 << 20, FileAge: 24 * time.Hour}

// withDefaults replaces zero values by the defaults.
func (l Limits) withDefaults() Limits {
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

// FullError is the error for a full spool.
type FullError struct {
	Folder     string
	Used, Size int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s has %d of %d bytes: increase [audit] size in toolguardd's settings, or have the oldest files removed with on_full = \"drop\"",
		e.Folder, e.Used, e.Size)
}

// ensureCapacity ensures that there is a current file, and capacity in it.
func (s *Spool) ensureCapacity() error {
	old := s.synced.offset > 0 && time.Since(s.began) >= s.Limits.FileAge
	if s.file == nil || s.keyNamed || s.synced.offset >= s.Limits.FileSize || old {
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

// nearlyFull returns an error if the remaining capacity is reserved for the running sessions.
func (s *Spool) nearlyFull() error {
	if used := s.used(); !s.Limits.Drop && used >= s.Limits.Size/10*9 && !s.shipped() {
		return &FullError{s.Folder, used, s.Limits.Size}
	}
	return nil
}

func (s *Spool) used() int64 {
	used := s.synced.offset
	for _, p := range s.finished {
		used += p.size
	}
	return used
}

// freeSpace removes the oldest file if err is about a full disk, and reports whether it did.
func (s *Spool) freeSpace(err error) bool {
	return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) && s.removeOldest(s.minimumSize())
}

// removeOldest removes the oldest file if every sink has it, or with Limits.Drop, if at least minimum bytes remain.
func (s *Spool) removeOldest(minimum int64) bool {
	shipped := s.shipped()
	drop := s.Limits.Drop && len(s.finished) > 0 && s.used()-s.finished[0].size >= minimum
	return (shipped || drop) && s.removeFirst(shipped, "to free space")
}

// minimumSize returns how much of the spool remains when the disk is full. Otherwise a process that fills the disk could have the
// whole spool removed, one file for each event.
func (s *Spool) minimumSize() int64 {
	size := s.Limits.Size
	var disk syscall.Statfs_t
	if syscall.Statfs(s.Folder, &disk) == nil {
		size = min(size, int64(disk.Blocks)*int64(disk.Bsize))
	}
	return size / 2
}

// prune removes the oldest files until the rest has at most keep bytes.
func (s *Spool) prune(keep int64) error {
	if s.used() > keep && s.synced.offset > keep {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	for s.used() > keep && s.removeFirst(s.shipped(), "by 'toolguard audit prune'") {
	}
	_, err := s.writeChunk(nil)
	return err
}

// removeFirst removes the oldest file, and records why.
func (s *Spool) removeFirst(shipped bool, reason string) bool {
	if len(s.finished) == 0 {
		return false
	}
	oldest := s.finished[0]
	next, ok := s.secondFile()
	if !ok {
		return false
	}
	missing := missingFiles(s.begin.File, oldest.number, next.number)
	count, err := s.countLosses(oldest.number)
	if err != nil {
		return false
	}
	count.Inexact = count.Inexact || missing != ""
	records := removed{s.begin.Sequence + 1, next.first.sequence - 1, shipped && missing == "", count}
	before, unreported := s.begin, s.unreportedRemoval
	s.begin, s.unreportedRemoval = recordPosition{next.number, 0, next.first.sequence - 1, next.first.previous.String()}, unreported.plus(records)
	err = s.syncHead() // before the removal, or verify would report the file as missing
	if err == nil {
		err = os.Remove(s.path(fileName(oldest.number)))
	}
	if err != nil {
		s.begin, s.unreportedRemoval = before, unreported
		return false
	}
	if !shipped && len(s.behind()) > 0 {
		s.unsent += records.Last - records.First + 1
	}
	if s.finished = s.finished[1:]; len(s.finished) == 0 {
		s.unsigned = checkpointLines // the file that named the key is gone, so sign soon
	}
	s.pendingGaps = append(s.pendingGaps, records.gap(fmt.Sprintf(", in %s, were removed %s%s", fileName(oldest.number), reason, missing)))
	return true
}

const foreignRemoval = "; another process had removed "

// missingFiles names the files before next that are missing, except for the one that the spool removes, so that foreign removals
// aren't reported as the spool's own.
func missingFiles(first, removed, next uint64) string {
	var names []string
	if first < removed {
		names = append(names, fileNames(first, removed-1))
	}
	if removed+1 < next {
		names = append(names, fileNames(removed+1, next-1))
	}
	if names == nil {
		return ""
	}
	return foreignRemoval + strings.Join(names, " and ")
}

func fileNames(first, last uint64) string {
	if first == last {
		return fileName(first)
	}
	return fileName(first) + " to " + fileName(last)
}

// secondFile returns the file after the oldest one. ok is false if it is unknown.
func (s *Spool) secondFile() (p finishedFile, ok bool) {
	switch {
	case len(s.finished) > 1:
		p = s.finished[1]
	case s.file == nil:
	case s.synced.offset == 0:
		p = finishedFile{number: s.number, first: link{chain: s.stream.ID, sequence: s.synced.sequence + 1, previous: s.synced.hash}}
	default:
		p, _ = s.inspectFile(s.number)
	}
	return p, p.first.sequence > s.begin.Sequence+1
}

// shipped reports whether every sink, and at least one, has the oldest file. It relies on the shipper's cursors: false ones have
// the same effect as Drop, with another reason in the gap. Impossible cursors are ignored.
func (s *Spool) shipped() bool { return len(s.finished) > 0 && s.finished[0].number < s.shippedTo() }

// shippedTo returns the first file that not every sink has, or 0 if that is unknown.
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

// behind returns how many records each sink hasn't received.
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
		if c.Chain == s.stream.ID && c.Sequence <= s.synced.sequence {
			by[sink] = float64(s.synced.sequence - c.Sequence)
		} else {
			by[sink] = float64(s.synced.sequence) // the cursor is of another spool
		}
	}
	return by
}

// inspectFile returns a file's size and first link.
func (s *Spool) inspectFile(number uint64) (p finishedFile, err error) {
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
	first, _ := parseLink(line) // zero if it isn't a spool's line
	return finishedFile{number: number, size: info.Size(), first: first}, nil
}
