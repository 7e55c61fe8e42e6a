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
	// Version is toolguard's, for the product field.
	Version string

	format Format
	boot   string
	host   string
	stream string

	w      io.Writer
	next   uint64
	torn   bool // the last line isn't complete
	buf    []byte
	masked map[*string][]string // command lines without secrets, by where the first argument is
}

// maxMasked bounds the command lines that are remembered.
const maxMasked = 256

// redactArgv is RedactArgv, which takes longer than all the rest, once for the command lines that many events share: those of
// the refused process's ancestors.
func (w *Writer) redactArgv(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	out, known := w.masked[&argv[0]]
	if known && len(out) == len(argv) {
		return out
	}
	if w.masked == nil || len(w.masked) == maxMasked {
		w.masked = map[*string][]string{}
	}
	out = RedactArgv(argv)
	w.masked[&argv[0]] = out
	return out
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
	out := redact(*e, w.redactArgv)
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
