package egress

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

// The machine's own are the addresses that its devices have, and no others that lead there or anywhere.
func TestOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		defer close(done)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		if err := nettest.Loopback("93.184.215.1", "93.184.215.9", "2a00:1450::1"); err != nil {
			done <- err
			return
		}
		for text, want := range map[string]bool{
			"93.184.215.1": true, "93.184.215.9": true, "127.0.0.1": true, "2a00:1450::1": true, "::1": true, "93.184.215.2": false, "151.101.1.1": false, "2a00:1450::2": false,
		} {
			if own(netip.MustParseAddr(text)) != want {
				t.Errorf("%s: %v", text, !want)
			}
		}
	}()
	for err := range done {
		t.Error(err)
	}
}
