package metrics

import (
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestFew: one more is accepted when another one has gone.
func TestFew(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	few := Few(l, 2)
	defer few.Close()
	for range 3 {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	var gone atomic.Bool
	accepted := make(chan net.Conn, 3)
	early := make(chan bool, 1)
	go func() {
		for i := range 3 {
			c, err := few.Accept()
			if err != nil {
				break
			}
			if i == 2 {
				early <- !gone.Load()
			}
			accepted <- c
		}
		close(accepted)
	}()
	first, second := <-accepted, <-accepted
	time.Sleep(10 * time.Millisecond) // for a third one that shouldn't be
	gone.Store(true)
	_ = first.Close()
	_ = first.Close() // makes no more room
	third := <-accepted
	if third == nil || <-early {
		t.Error("the third one is accepted before there's room")
	}
	for _, c := range []net.Conn{second, third} {
		if c != nil {
			_ = c.Close()
		}
	}
}
