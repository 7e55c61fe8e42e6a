package audit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// checkFolder ensures that the open files are those in the folder. Another process may have removed or replaced them, for example
// by restoring a copy. It reports the removal, and reopens the files, so that readers find later records.
func (s *Spool) checkFolder() (err error) {
	if !s.isCurrent(s.lock, "lock") {
		lock, err := s.openFile("lock")
		if err != nil {
			return fmt.Errorf("the audit's folder was removed: %w", err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return errors.Join(fmt.Errorf("another process writes to %s", s.Folder), lock.Close())
		}
		_ = s.lock.Close()
		s.lock = lock
		if err := s.key.save(s.Folder); err != nil {
			return err
		}
	}
	if !s.isCurrent(s.head, headName) {
		head, err := s.openFile(headName)
		if err != nil {
			return err
		}
		s.allowReaders(s.path(headName), 0o640)
		_ = s.head.Close()
		s.head = head
		s.addInexactGap("another process removed or replaced the file head: until now the end of the audit wasn't recorded")
	}
	if name := fileName(s.number); s.file != nil && !s.isCurrent(s.file, name) {
		s.addInexactGap(fmt.Sprintf("another process removed or replaced %s while it was open: its records, up to %d, are gone, except for those in the replacement",
			name, s.synced.sequence))
		_ = s.file.Close()
		s.file, s.keyNamed, s.torn, s.opened = nil, false, false, false
		s.synced.offset, s.fileUsage = 0, userBytes{}
		s.buffered = s.synced
	}
	return nil
}

// isCurrent reports whether a name still refers to an open file.
func (s *Spool) isCurrent(f *os.File, name string) bool {
	opened, _ := f.Stat()
	named, _ := os.Lstat(s.path(name))
	return os.SameFile(opened, named) // false if either is missing
}
