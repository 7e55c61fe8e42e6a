package event

import (
	"fmt"
	"io"
)

// Writer numbers events and writes them, one line and one call each, for one goroutine: others go through a Queue. What it
// writes to may fail now and then: the number of an event that wasn't written at all goes to the next one; one that was
// written in part is lost, and its number with it, so that the loss can be seen.
type Writer struct {
	*Stream
	format Format
	w      io.Writer
	torn   bool // the last line isn't complete
	buf    []byte
}

// NewWriter begins a stream of events.
func NewWriter(w io.Writer, f Format) (*Writer, error) {
	s, err := NewStream()
	if err != nil {
		return nil, err
	}
	return &Writer{Stream: s, w: w, format: f}, nil
}

// Write numbers an event and writes it. The event itself isn't changed. A zero time becomes now.
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
