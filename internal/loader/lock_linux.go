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

// How long to wait for other processes: loading takes some tenths of a second (a minute on emulated processors), everything else
// microseconds.
const patience = 5 * time.Minute

// lock is an open lock file. Each is a separate owner of locks (open file description locks, fcntl(2)).
//
// Several processes of toolguard share the maps. They change them under locks on bytes of a file, which the kernel releases when the
// process dies: byte 0 is for the maps, byte 1+N for the owner of slot N. The programs of each version have their own file. The file
// named load is for loading and unloading programs.
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

// folders makes the folders that all versions share.
func folders() error {
	for _, dir := range []string{image.RunFolder, image.Canary} {
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755) // whatever the umask: every user must be able to open the canary
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

// with runs f with the lock on the maps.
func (l *lock) with(f func() error) error {
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
		wait = min(2*wait, max(10*time.Millisecond, time.Since(began)/16)) // the process that loads needs the processor
	}
	return errors.Join(f(), l.set(0, unix.F_UNLCK))
}

// own locks a slot.
func (l *lock) own(slot int) error { return l.set(1+int64(slot), unix.F_WRLCK) }

// owned reports whether another lock owns a slot.
func (l *lock) owned(slot int) (bool, error) {
	k := unix.Flock_t{Type: unix.F_WRLCK, Start: 1 + int64(slot), Len: 1}
	err := unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_GETLK, &k)
	return k.Type != unix.F_UNLCK, err
}
