package childtest

import (
	"bytes"
	"sync"
)

// Output collects a child's output, and is readable at any time.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
