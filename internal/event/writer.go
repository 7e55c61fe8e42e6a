package event

import (
	"fmt"
	"io"
)

// Writer numbers events and writes each as one line in one call. It isn't safe for concurrent use; a Queue is. If a call writes
// nothing, the next event gets the number. If a call writes a part of the line, the event and its number are lost, so that a
// consumer sees the gap.
type Writer struct {
	*Stream
	format Format
	w      io.Writer
	torn   bool // the last line is incomplete
	buf    []byte
}

// NewWriter returns a writer with a stream of its own.
func NewWriter(w io.Writer, f Format) (*Writer, error) {
	s, err := NewStream()
	if err != nil {
		return nil, err
	}
	return &Writer{Stream: s, w: w, format: f}, nil
}

// Write numbers an event and writes it. It doesn't change e. A zero time becomes the current time.
func (w *Writer) Write(e *Event) error {
	out := w.Number(e, w.next)
	w.buf = w.buf[:0]
	if w.torn {
		w.buf = append(w.buf, '\n')
	}
	w.buf = w.format.Append(w.buf, &out)
	n, err := w.w.Write(w.buf)
	if n < len(w.buf) && err == nil {
		err = io.ErrShortWrite
	}
	if n > 0 {
		w.next++
		w.torn = n < len(w.buf)
	}
	if err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}
