package event

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// Writer numbers events and writes them, one line and one call each, for one goroutine: others go through a Queue. What it
// writes to may fail now and then: the number of an event that wasn't written at all goes to the next one; one that was
// written in part is lost, and its number with it, so that the loss can be seen.
type Writer struct {
	// Redact masks secrets in arguments; RedactArgv unless set.
	Redact func(argv []string) []string
	// Version is toolguard's, for the product field.
	Version string

	format Format
	boot   string
	host   string
	stream string

	w    io.Writer
	next uint64
	torn bool // the last line isn't complete
	buf  []byte
}

// NewWriter begins a stream of events.
func NewWriter(w io.Writer, f Format) (*Writer, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	var id [8]byte
	rand.Read(id[:])
	return &Writer{w: w, format: f, boot: boot, host: host, stream: hex.EncodeToString(id[:]), next: 1}, nil
}

// Write numbers an event and writes it. The event itself isn't changed. A zero time becomes now.
func (w *Writer) Write(e *Event) error {
	argv := w.Redact
	if argv == nil {
		argv = RedactArgv
	}
	out := redact(*e, argv)
	if out.Time.IsZero() {
		out.Time = time.Now()
	}
	out.Boot, out.Host, out.Version = w.boot, w.host, w.Version
	out.Sequence = w.next
	out.UID = w.stream + "-" + strconv.FormatUint(w.next, 10)
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
