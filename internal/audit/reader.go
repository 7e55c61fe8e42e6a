package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Reader reads a spool's lines from a cursor on, and no further than they're known to be on the disk, also while somebody writes.
type Reader struct {
	folder string
	at     Cursor
	head   head
	file   *os.File
	lines  *bufio.Reader
}

// GoneError says that records were removed before a reader came to them. It goes on after them.
type GoneError struct{ First, Last uint64 }

func (e *GoneError) Error() string {
	return fmt.Sprintf("records %d to %d were removed to make room before they were read", e.First, e.Last)
}

// OtherError says that the spool isn't the one that was read before. A reader goes on at its beginning.
type OtherError struct{ Before, Now string }

func (e *OtherError) Error() string {
	return fmt.Sprintf("audit %s was removed, or replaced by another one, %s, before all of it was read", e.Before, e.Now)
}

// DamageError says that a line isn't one of a spool. A reader goes on after it.
type DamageError struct {
	File   string
	Offset int64
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s isn't as it was written, at byte %d: 'toolguard audit verify' tells more", e.File, e.Offset)
}

// NewReader reads a spool from a cursor on.
func NewReader(folder string, from Cursor) *Reader { return &Reader{folder: folder, at: from} }

// Cursor is the place after the line that Next returned.
func (r *Reader) Cursor() Cursor { return r.at }

// Close ends the reading.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// Next returns the next line, which stays as it is until the next call. io.EOF says that there's no other yet: ask again later.
func (r *Reader) Next() ([]byte, error) {
	if r.atEnd() {
		if err := r.look(); err != nil {
			return nil, err
		}
		if r.atEnd() {
			return nil, io.EOF
		}
	}
	for {
		if err := r.open(); err != nil {
			return nil, err
		}
		line, err := readLine(r.lines)
		switch {
		case len(line) == 0 && errors.Is(err, io.EOF) && r.at.File < r.head.End.File:
			r.Close()
			if r.at.File, r.at.Offset = r.at.File+1, 0; r.atEnd() {
				return nil, io.EOF
			}
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLong):
			return nil, err
		default:
			return r.line(line)
		}
	}
}

// line takes a line in.
func (r *Reader) line(line []byte) ([]byte, error) {
	l, ok := parseLink(line)
	if !ok {
		damage := &DamageError{fileName(r.at.File), r.at.Offset}
		at, err := r.file.Seek(0, io.SeekCurrent)
		r.at.Offset, r.at.Hash = at-int64(r.lines.Buffered()), ""
		if len(line) == 0 && r.at.File == r.head.End.File { // it was cut off before the end that it had
			r.at.Offset = r.head.End.Offset
		}
		return nil, errors.Join(damage, err)
	}
	if r.at.Hash != "" && (l.chain != r.at.Chain || l.previous.String() != r.at.Hash) { // an older copy was put back, or it was edited
		r.Close() // the line is read again, for what it is
		r.at.Hash = ""
		return nil, &DamageError{fileName(r.at.File), r.at.Offset}
	}
	r.at.Offset += int64(len(line))
	r.at.Sequence, r.at.Hash = l.sequence, l.hash.String()
	return line, nil
}

func (r *Reader) atEnd() bool {
	end := r.head.End
	return r.at.File > end.File || r.at.File == end.File && r.at.Offset >= end.Offset
}

// look reads the spool's head again, and goes to the spool's beginning when that is later than where the reader is.
func (r *Reader) look() error {
	h, err := readHead(r.folder)
	if errors.Is(err, errHead) { // it may be written just now
		h, err = readHead(r.folder)
	}
	switch {
	case absent(err):
		return fmt.Errorf("there is no audit in %s, or nothing says where it ends", r.folder)
	case err != nil:
		return fmt.Errorf("read the head of %s: %w", r.folder, err)
	}
	r.head = h
	if before := r.at.Chain; before != h.Chain {
		r.Close()
		r.at.Chain = h.Chain
		if before != "" {
			r.at = Cursor{Chain: h.Chain}
			_ = r.catchUp() // nobody has missed what this one doesn't have any more
			return &OtherError{before, h.Chain}
		}
	}
	if end := h.End; r.at.File > end.File || r.at.File == end.File && r.at.Offset > end.Offset { // an older copy, or cut off
		r.Close()
		r.at.File, r.at.Offset, r.at.Hash = end.File, end.Offset, ""
		return &DamageError{fileName(end.File), end.Offset}
	}
	return r.catchUp()
}

// End is where a spool ends now.
func End(folder string) (Cursor, error) {
	h, err := readHead(folder)
	return Cursor{h.Chain, h.End.File, h.End.Offset, h.End.Sequence, h.End.Hash}, err
}

// catchUp goes to the spool's beginning.
func (r *Reader) catchUp() error {
	if r.at.File >= r.head.Begin.File {
		return nil
	}
	gone := &GoneError{r.at.Sequence + 1, r.head.Begin.Sequence}
	fresh := r.at.File == 0
	r.Close()
	r.at = Cursor{Chain: r.head.Chain, File: r.head.Begin.File, Sequence: r.head.Begin.Sequence, Hash: r.head.Begin.Hash}
	if fresh || gone.Last < gone.First {
		return nil
	}
	return gone
}

func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	f, err := openRegular(filepath.Join(r.folder, fileName(r.at.File)))
	if absent(err) { // removed meanwhile?
		before := r.at.File
		if err := r.look(); err != nil {
			return err
		}
		if r.at.File != before {
			return r.open()
		}
		return r.skipFile()
	}
	if err != nil {
		return err
	}
	if _, err := f.Seek(r.at.Offset, io.SeekStart); err != nil {
		_ = f.Close()
		return err
	}
	r.file, r.lines = f, bufio.NewReaderSize(f, 64<<10)
	return nil
}

// skipFile goes to the file after one that isn't there.
func (r *Reader) skipFile() error {
	list, err := files(r.folder)
	if err != nil {
		return err
	}
	gone := &DamageError{fileName(r.at.File), 0}
	r.at.Hash = ""
	after := slices.IndexFunc(list, func(n uint64) bool { return n > r.at.File })
	if after >= 0 {
		r.at.File, r.at.Offset = list[after], 0
	} else {
		r.at.File, r.at.Offset = r.head.End.File, r.head.End.Offset
	}
	return gone
}
