package seccomp

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

func BenchmarkFilters(b *testing.B) {
	c := compile(b, denies(policy.FS, policy.Net))
	for b.Loop() {
		if _, err := Filters(c, 7); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad filters a fresh thread each time.
func BenchmarkLoad(b *testing.B) {
	filters, err := Filters(compile(b, denies(policy.FS, policy.Net)), 7)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				done <- err
				return
			}
			b.StartTimer()
			err := Load(filters)
			b.StopTimer()
			done <- err
		}()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
