package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
	"github.com/toolguard/toolguard/internal/loader/image"
)

// How long to wait for others: loading takes some tenths of a second, where processors are emulated a minute, everything else
// microseconds.
const patience = 5 * time.Minute

// lock is an open lock file. The kernel counts each as another holder (open file description locks, fcntl(2)).
//
// Several toolguards share the maps. What they change together they change under locks on bytes of a file, which the kernel
// drops when their holder dies, however it dies: byte 0 is for the maps, and byte 1+N belongs to whoever owns slot N. The
// programs of each version have a file of their own; the one called load is for who loads and unloads them.
type lock struct {
	fd int
	mu sync.Mutex // for goroutines, which the kernel can't distinguish
}

func openLock(name string) (*lock, error) {
	path := image.LockFolder + "/" + name
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ENOENT) {
		if err := folders(); err != nil {
			return nil, err
		}
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &lock{fd: fd}, nil
}

// folders makes those that there are only one of, whatever the version.
func folders() error {
	for _, dir := range []string{image.RunFolder, image.Canary} {
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755) // whatever the umask: every user's proof is that he can open it
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return bpffs.Folder(image.LockFolder)
}

func (l *lock) close() { _ = unix.Close(l.fd) }

func (l *lock) set(byte int64, kind int16) error {
	return unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: byte, Len: 1})
}

// hold runs f while no other toolguard changes the maps.
func (l *lock) hold(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := 100 * time.Microsecond
	for began := time.Now(); ; time.Sleep(wait) {
		err := l.set(0, unix.F_WRLCK)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) || time.Since(began) > patience {
			return fmt.Errorf("wait for the lock in %s: %w", image.LockFolder, err)
		}
		wait = min(2*wait, max(10*time.Millisecond, time.Since(began)/16)) // who loads needs the processor
	}
	return errors.Join(f(), l.set(0, unix.F_UNLCK))
}

// own makes a slot this holder's.
func (l *lock) own(slot int) error { return l.set(1+int64(slot), unix.F_WRLCK) }

// owned reports whether another holder owns a slot.
func (l *lock) owned(slot int) (bool, error) {
	k := unix.Flock_t{Type: unix.F_WRLCK, Start: 1 + int64(slot), Len: 1}
	err := unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_GETLK, &k)
	return k.Type != unix.F_UNLCK, err
}
