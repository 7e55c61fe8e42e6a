package audit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// inPlace makes sure that what is written goes where it's read: others may have removed or replaced the spool's files meanwhile, by a
// copy that they've put back for one. What was taken away is told; what is written from now on is there.
func (s *Spool) inPlace() (err error) {
	if !s.there(s.lock, "lock") {
		lock, err := s.openFile("lock")
		if err != nil {
			return fmt.Errorf("the audit's folder was taken away: %w", err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return errors.Join(fmt.Errorf("somebody else writes to %s", s.Folder), lock.Close())
		}
		_ = s.lock.Close()
		s.lock = lock
		if err := s.key.save(s.Folder); err != nil {
			return err
		}
	}
	if !s.there(s.head, headName) {
		head, err := s.openFile(headName)
		if err != nil {
			return err
		}
		s.share(s.path(headName), 0o640)
		_ = s.head.Close()
		s.head = head
		s.owe("somebody has removed or replaced the file head: until now it didn't say where the audit ends")
	}
	if name := fileName(s.number); s.file != nil && !s.there(s.file, name) {
		s.owe(fmt.Sprintf("somebody has removed or replaced %s while it was written to: its records, up to %d, are gone but for what was put in its place",
			name, s.done.sequence))
		_ = s.file.Close()
		s.file, s.turned, s.torn, s.opened = nil, false, false, false
		s.done.offset, s.taken = 0, taken{}
		s.now = s.done
	}
	return nil
}

// there tells whether a file is the one that has the name.
func (s *Spool) there(f *os.File, name string) bool {
	is, _ := f.Stat()
	has, _ := os.Lstat(s.path(name))
	return os.SameFile(is, has) // false where either is missing
}
