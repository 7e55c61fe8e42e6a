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

// Config says what a spool is.
type Config struct {
	Folder  string
	Version string // toolguard's
	Readers int    // the group that may read the spool; 0: root alone
	Cursors string // the file in which the shipper says how far each sink is; "": nobody ships
	Limits
}

// Open opens a spool to be written to, or makes one. Where the one before wasn't closed, what it has left torn is taken away, and
// told with the first events; so is what isn't there any more. Nothing is written yet.
func Open(cfg Config) (*Spool, error) {
	s := &Spool{Config: cfg, stamped: time.Now()}
	s.Limits = cfg.Limits.set()
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
	s.share(s.Folder, 0o750)
	if s.lock, err = s.openFile("lock"); err != nil {
		return err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("somebody else writes to %s", s.Folder)
	}
	h, err := readHead(s.Folder)
	if err != nil && !absent(err) && !errors.Is(err, errHead) {
		return err
	}
	if s.head, err = s.openFile(headName); err != nil {
		return err
	}
	s.share(s.path(headName), 0o640)
	if s.key, err = loadKey(s.Folder); err != nil {
		return err
	}
	known := err == nil && s.signed(h)
	if err := s.recover(h, known); err != nil {
		return err
	}
	s.looksFor()
	return s.reopen(h, known)
}

// signed tells whether a head is the spool's: anybody can sign one with a key of his own.
func (s *Spool) signed(h head) bool {
	return (h.Key == s.key.public() || h.Key == s.key.next().public()) && verify(h.Key, h.text(), h.Signature)
}

// reopen has the head on the disk say, before there's anything after it, that the spool is written to: a machine that loses its power has
// lost what it wasn't made to keep, and what comes after a spool's end isn't its own. What it writes then begins with a checkpoint, so that
// nobody else's is taken for it.
func (s *Spool) reopen(h head, known bool) error {
	switch {
	case known && h.Closed:
		h.Closed, h.Opened = false, true
	case !known && s.file == nil && len(s.parts) == 0:
		h = head{Chain: s.stream.ID, Begin: s.begin, End: s.begin, Opened: true}
	case known && h.Opened:
	default:
		return nil
	}
	s.fresh = true
	return errors.Join(h.write(s.head, s.key), s.head.Sync())
}

// markName is the file that says which spool was in the folder. It's beside it: who removes the folder is found out.
func (s *Spool) markName() string { return filepath.Clean(s.Folder) + ".id" }

// looksFor looks for the spool that was in the folder.
func (s *Spool) looksFor() {
	text, err := readSmall(s.markName(), 256)
	was := strings.TrimSpace(string(text))
	if s.marked = err == nil && was == s.stream.ID; s.marked || absent(err) {
		return
	}
	s.owe(fmt.Sprintf("%s is another audit, %s: the audit %s that was there is gone, with all that it told", s.Folder, s.stream.ID, was))
}

// mark says which spool is in the folder, once what it tells of another one is on the disk.
func (s *Spool) mark() {
	if !s.marked {
		s.marked = Replace(s.markName(), []byte(s.stream.ID+"\n")) == nil
	}
}

func (s *Spool) openFile(name string) (*os.File, error) {
	return os.OpenFile(s.path(name), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}

func (s *Spool) path(name string) string { return filepath.Join(s.Folder, name) }

// share has the readers' group read what is there. Where that can't be done they can't, and say so; events are kept all the same.
func (s *Spool) share(name string, mode os.FileMode) {
	if s.Readers > 0 && os.Chown(name, -1, s.Readers) == nil {
		_ = os.Chmod(name, mode) // whatever the umask
	}
}
