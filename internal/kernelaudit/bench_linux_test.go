package kernelaudit

import (
	"context"
	"runtime"
	"testing"
)

// BenchmarkSession is what a session without refusals pays: opening, a watch, the end.
func BenchmarkSession(b *testing.B) {
	for range b.N {
		r, err := Open()
		if err != nil {
			b.Fatal(err)
		}
		w, err := r.Watch(Session{Audit: 1}, func(Denial) {})
		if err != nil {
			b.Fatal(err)
		}
		r.Listen()
		if _, err := w.Finish(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFreshSession(b *testing.B) {
	runtime.LockOSThread()
	for range b.N {
		if _, err := FreshSession(); err != nil {
			b.Fatal(err)
		}
	}
}
