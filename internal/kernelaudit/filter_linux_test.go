package kernelaudit

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilter sends messages of all types through a socket with the filter: only the wanted types arrive.
func TestFilter(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	must(t, attachFilter(pair[1]))
	var came []uint16
	buf := make([]byte, 1<<10)
	for kind := range uint16(2000) {
		b := make([]byte, headerLen+500)
		binary.NativeEndian.PutUint16(b[4:], kind)
		if _, err := unix.Write(pair[0], b); err != nil && err != unix.EPERM { // the filter discarded it, which a unix socket's writer gets as an error
			t.Fatal(err)
		}
		if n, err := unix.Read(pair[1], buf); err == nil && n == len(b) {
			came = append(came, kind)
		}
	}
	want := slices.Clone(wantedTypes)
	slices.Sort(want)
	if !slices.Equal(came, want) {
		t.Errorf("%v came, of %v", came, want)
	}
}
