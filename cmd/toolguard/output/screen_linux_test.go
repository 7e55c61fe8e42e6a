package output

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A pipe that was made non-blocking, and filled, since toolguard has it loses nothing of a screen.
func TestNonBlockingScreen(t *testing.T) {
	var ends [2]int
	childtest.Must(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	r, w := os.NewFile(uintptr(ends[0]), "r"), os.NewFile(uintptr(ends[1]), "w")
	defer r.Close()
	defer w.Close()
	s := NewFile(w)
	childtest.Must(t, unix.SetNonblock(ends[1], true))
	filled, chunk := 0, make([]byte, 4096)
	for {
		n, err := unix.Write(ends[1], chunk)
		if err != nil {
			break
		}
		filled += n
	}
	got := make(chan string)
	go func() {
		time.Sleep(100 * time.Millisecond)
		_, _ = io.CopyN(io.Discard, r, int64(filled))
		text, _ := io.ReadAll(r)
		got <- string(text)
	}()
	want := strings.Repeat("denied\n", 1<<15)
	s.text.WriteString(want)
	s.flush()
	w.Close()
	if text := <-got; text != want {
		t.Errorf("%d of %d bytes", len(text), len(want))
	}
}
