package proc

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Booted returns the time of boot, always the same value, so that a process's start time doesn't vary.
var Booted = sync.OnceValue(func() time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // doesn't fail
	return time.Now().Add(-time.Duration(ts.Nano()))
})

// ReadBeginning reads the beginning of a file in /proc. A process can make its command line as long as its memory (PR_SET_MM).
func ReadBeginning(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 8<<10))
}

// ReadShort reads a file of a few short lines, and returns nothing on an error. It takes a fifth of the time of package os.
func ReadShort(file string) []byte {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil
	}
	return b[:n]
}

// StatusField returns the words of one line of /proc/PID/status.
func StatusField(status []byte, name string) []string {
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, name+":\t"); ok {
			return strings.Fields(v)
		}
	}
	return nil
}
