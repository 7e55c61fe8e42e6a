package launch

import (
	"errors"
	"runtime"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"

	"golang.org/x/sys/unix"
)

// A thread has the name that identifies its domains only while it makes them: the command must not learn it.
func TestWithName(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	name := func() string {
		text := childtest.ReadFile(t, "/proc/thread-self/comm")
		return string(text)
	}
	before, during := name(), ""
	err := withName("0123456789abcde", func() error { during = name(); return unix.EPERM })
	if after := name(); !errors.Is(err, unix.EPERM) || during != "0123456789abcde\n" || after != before {
		t.Errorf("%q, %q, %q: %v", before, during, after, err)
	}
}
