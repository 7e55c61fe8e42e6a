package main

import (
	"os"

	"github.com/toolguard/toolguard/internal/event"
)

// newEventWriter writes events to f.
func newEventWriter(f *os.File, format string) (*event.Writer, error) {
	return event.NewWriter(f, format)
}
