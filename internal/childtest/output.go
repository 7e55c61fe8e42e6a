package childtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
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

// Lines returns the JSON values of a file, one a line, without one that is being written.
func Lines[T any](t testingT, file string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	Must(t, err)
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(fmt.Errorf("%w: %s", err, line))
		}
		all = append(all, v)
	}
	return all
}
