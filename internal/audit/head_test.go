package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A head that is read while it's written is one of those that were written.
func TestReadHeadWhileWritten(t *testing.T) {
	dir := t.TempDir()
	k, err := loadKey(dir)
	childtest.Must(t, err)
	f, err := os.Create(filepath.Join(dir, headName))
	childtest.Must(t, err)
	defer f.Close()
	write := func(i int) error {
		h := head{Chain: "chain", End: recordPosition{Sequence: uint64(i), Hash: "hash"}}
		return h.write(f, k)
	}
	childtest.Must(t, write(0))
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := write(i % 2 * 1_000_000_000); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 20_000 {
		if _, err := readHead(dir); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	childtest.Must(t, <-done)
}
