package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Config is the configuration of a spool.
type Config struct {
	Folder  string
	Version string // toolguard's
	Readers int    // the group that may read the spool; 0: root alone
	Cursors string // the shipper's file with each sink's cursor; "": there is no shipper
	Limits
}

// Open opens a spool for writing, or creates one. If the spool wasn't closed, Open truncates an incomplete write. The first events
// report that, and missing records. Open writes no records.
func Open(cfg Config) (*Spool, error) {
	s := &Spool{Config: cfg, signedAt: time.Now()}
	s.Limits = cfg.Limits.withDefaults()
	if err := s.open(); err != nil {
		_ = s.release()
		return nil, fmt.Errorf("open the audit: %w", err)
	}
	return s, nil
}

func (s *Spool) open() (err error) {
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return err
	}
	s.allowReaders(s.Folder, 0o750)
	if s.lock, err = s.openFile("lock"); err != nil {
		return err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another process writes to %s", s.Folder)
	}
	h, err := readHead(s.Folder)
	if err != nil && !isNotExist(err) && !errors.Is(err, errHead) {
		return err
	}
	if s.head, err = s.openFile(headName); err != nil {
		return err
	}
	s.allowReaders(s.path(headName), 0o640)
	if s.key, err = loadKey(s.Folder); err != nil {
		return err
	}
	trusted := err == nil && s.signed(h)
	if err := s.recover(h, trusted); err != nil {
		return err
	}
	s.checkMark()
	return s.reopen(h, trusted)
}

// signed reports whether the spool's key has signed a head. A head with another key's signature proves nothing.
func (s *Spool) signed(h head) bool {
	return (h.Key == s.key.public() || h.Key == s.key.next().public()) && verify(h.Key, h.text(), h.Signature)
}

// reopen marks the head on the disk as opened before records are written. After a power loss, the head on the disk may be this one,
// and records after the end of a closed spool would be foreign. The first record after the mark is a checkpoint, which
// distinguishes the spool's own records from foreign ones.
func (s *Spool) reopen(h head, trusted bool) error {
	switch {
	case trusted && h.Closed:
		h.Closed, h.Opened = false, true
	case !trusted && s.file == nil && len(s.finished) == 0:
		h = head{Chain: s.stream.ID, Begin: s.begin, End: s.begin, Opened: true}
	case trusted && h.Opened:
	default:
		return nil
	}
	s.onlyOpened = true
	return errors.Join(h.write(s.head, s.key), s.head.Sync())
}

// markName returns the file with the id of the spool in the folder. It is next to the folder, so that it survives the folder's removal.
func (s *Spool) markName() string { return filepath.Clean(s.Folder) + ".id" }

// checkMark reports a spool that was in the folder and is gone.
func (s *Spool) checkMark() {
	text, err := readSmall(s.markName(), 256)
	was := strings.TrimSpace(string(text))
	if s.marked = err == nil && was == s.stream.ID; s.marked || isNotExist(err) {
		return
	}
	s.addInexactGap(fmt.Sprintf("%s contains another audit, %s: the audit %s that was there is gone, with all its records", s.Folder, s.stream.ID, was))
}

// mark writes the spool's id, after the report about a previous spool is on the disk.
func (s *Spool) mark() {
	if !s.marked {
		s.marked = Replace(s.markName(), []byte(s.stream.ID+"\n")) == nil
	}
}

func (s *Spool) openFile(name string) (*os.File, error) {
	return os.OpenFile(s.path(name), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}

func (s *Spool) path(name string) string { return filepath.Join(s.Folder, name) }

// allowReaders makes a file readable for the readers' group. If that fails, the readers fail and report it; events are still stored.
func (s *Spool) allowReaders(name string, mode os.FileMode) {
	if s.Readers > 0 && os.Chown(name, -1, s.Readers) == nil {
		_ = os.Chmod(name, mode) // whatever the umask
	}
}
