package loader

import (
	"os"
	"testing"
	"time"
)

// A ring that can't be mapped is tried again until its reader is stopped.
func TestUnmapped(t *testing.T) {
	from, to, err := os.Pipe() // a pipe can't be mapped
	must(t, err)
	defer to.Close()
	r := &reader{from, 1 << 15}
	defer r.close()
	if err := r.read((*pages).skip); err == nil {
		t.Fatal("a pipe was mapped")
	}
	done := make(chan error, 1)
	go func() { done <- r.run(func([]byte) {}) }()
	select {
	case err := <-done:
		t.Fatalf("the reader stopped: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, from.SetReadDeadline(time.Unix(1, 0)))
	must(t, <-done)
}
