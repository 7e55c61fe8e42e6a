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

// Reader reads a spool's lines from a cursor to the end that the head states, which is on the disk. The spool may be open for writing.
type Reader struct {
	folder string
	at     Cursor
	head   head
	file   *os.File
	lines  *bufio.Reader
}

// RemovedError is the error for records that were removed before the reader reached them. The reader continues after them.
type RemovedError struct{ First, Last uint64 }

func (e *RemovedError) Error() string {
	return fmt.Sprintf("records %d to %d were removed before they were read, because the audit was full", e.First, e.Last)
}

// ReplacedError is the error for a spool that isn't the one that was read before. The reader continues at its beginning.
type ReplacedError struct{ Before, Now string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("audit %s was removed, or replaced by another one, %s, before all of it was read", e.Before, e.Now)
}

// DamageError is the error for a line that isn't as a spool has written it. The reader continues after it.
type DamageError struct {
	File   string
	Offset int64
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s isn't as it was written, at byte %d: see 'toolguard audit verify'", e.File, e.Offset)
}

// NewReader returns a reader of a spool from a cursor.
func NewReader(folder string, from Cursor) *Reader { return &Reader{folder: folder, at: from} }

// Cursor returns the position after the line that Next returned.
func (r *Reader) Cursor() Cursor { return r.at }

// Close closes the open file.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// Next returns the next line, which is valid until the next call. It returns io.EOF if there is none yet.
func (r *Reader) Next() ([]byte, error) {
	if r.atEnd() {
		if err := r.refresh(); err != nil {
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
			return r.accept(line)
		}
	}
}

// accept checks a line and advances the cursor.
func (r *Reader) accept(line []byte) ([]byte, error) {
	l, ok := parseLink(line)
	if !ok {
		damage := &DamageError{fileName(r.at.File), r.at.Offset}
		at, err := r.file.Seek(0, io.SeekCurrent)
		r.at.Offset, r.at.Hash = at-int64(r.lines.Buffered()), ""
		if len(line) == 0 && r.at.File == r.head.End.File { // the file was truncated
			r.at.Offset = r.head.End.Offset
		}
		return nil, errors.Join(damage, err)
	}
	if r.at.Hash != "" && (l.chain != r.at.Chain || l.previous.String() != r.at.Hash) { // an older copy was restored, or the file was edited
		r.Close() // the next call reads the line without this check
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

// refresh reads the head again. It moves the reader to the spool's beginning if that is after the cursor.
func (r *Reader) refresh() error {
	h, err := readHead(r.folder)
	if errors.Is(err, errHead) { // it may be incomplete during a write
		h, err = readHead(r.folder)
	}
	switch {
	case isNotExist(err):
		return fmt.Errorf("there is no audit in %s, or its file head is missing", r.folder)
	case err != nil:
		return fmt.Errorf("read the head of %s: %w", r.folder, err)
	}
	r.head = h
	if before := r.at.Chain; before != h.Chain {
		r.Close()
		r.at.Chain = h.Chain
		if before != "" {
			r.at = Cursor{Chain: h.Chain}
			_ = r.skipRemoved() // records that this spool removed aren't to be read
			return &ReplacedError{before, h.Chain}
		}
	}
	if end := h.End; r.at.File > end.File || r.at.File == end.File && r.at.Offset > end.Offset { // an older copy, or truncated
		r.Close()
		r.at.File, r.at.Offset, r.at.Hash = end.File, end.Offset, ""
		return &DamageError{fileName(end.File), end.Offset}
	}
	return r.skipRemoved()
}

// End returns the current end of a spool.
func End(folder string) (Cursor, error) {
	h, err := readHead(folder)
	return Cursor{h.Chain, h.End.File, h.End.Offset, h.End.Sequence, h.End.Hash}, err
}

// skipRemoved moves the reader to the spool's beginning.
func (r *Reader) skipRemoved() error {
	if r.at.File >= r.head.Begin.File {
		return nil
	}
	removed := &RemovedError{r.at.Sequence + 1, r.head.Begin.Sequence}
	fresh := r.at.File == 0
	r.Close()
	r.at = Cursor{Chain: r.head.Chain, File: r.head.Begin.File, Sequence: r.head.Begin.Sequence, Hash: r.head.Begin.Hash}
	if fresh || removed.Last < removed.First {
		return nil
	}
	return removed
}

func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	f, err := openRegular(filepath.Join(r.folder, fileName(r.at.File)))
	if isNotExist(err) { // the spool may have removed it
		before := r.at.File
		if err := r.refresh(); err != nil {
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

// skipFile continues with the file after a missing one.
func (r *Reader) skipFile() error {
	list, err := files(r.folder)
	if err != nil {
		return err
	}
	damage := &DamageError{fileName(r.at.File), 0}
	r.at.Hash = ""
	after := slices.IndexFunc(list, func(n uint64) bool { return n > r.at.File })
	if after >= 0 {
		r.at.File, r.at.Offset = list[after], 0
	} else {
		r.at.File, r.at.Offset = r.head.End.File, r.head.End.Offset
	}
	return damage
}
