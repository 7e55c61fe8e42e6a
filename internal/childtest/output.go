package childtest

import (
	"bytes"
	"sync"
)

// Output is what a child writes to while the test looks.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes in what the child says.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is what it has said until now.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
