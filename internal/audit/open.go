package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Config says what a spool is.
type Config struct {
	Folder  string
	Version string // toolguard's
	Limits
}

// Open opens a spool to be written to, or makes one. Where the one before wasn't closed, what it has left torn is taken away, and
// told with the first events; so is what isn't there any more. Nothing is written yet.
func Open(cfg Config) (*Spool, error) {
	s := &Spool{folder: cfg.Folder, version: cfg.Version, limits: cfg.Limits.set(), stamped: time.Now()}
	if err := s.open(); err != nil {
		_ = s.release()
		return nil, fmt.Errorf("open the audit: %w", err)
	}
	return s, nil
}

func (s *Spool) open() (err error) {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	if s.lock, err = s.openFile("lock"); err != nil {
		return err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("somebody else writes to %s", s.folder)
	}
	h, err := readHead(s.folder)
	if err != nil && !absent(err) && !errors.Is(err, errHead) {
		return err
	}
	known := err == nil && verify(h.Key, h.text(), h.Signature)
	if s.head, err = s.openFile(headName); err != nil {
		return err
	}
	if s.key, err = loadKey(s.folder); err != nil {
		return err
	}
	return s.recover(h, known)
}

func (s *Spool) openFile(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(s.folder, name), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}
