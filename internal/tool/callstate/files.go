//go:build unix

package callstate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// openFolder opens the folder of a store, and checks that no other user can replace a file in it.
func openFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	user := uint32(os.Geteuid())
	if st.Uid != user && st.Uid != 0 || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return nil, errors.Join(fmt.Errorf("other users can replace files in %s (owner %d, mode %04o): use another folder, or chown and chmod go-w it", path, st.Uid, st.Mode&0o7777), dir.Close())
	}
	return dir, nil
}

// openOwn opens a file of a folder if it's a regular file that only the user can read and write. O_NONBLOCK is for a FIFO, which would
// wait.
func openOwn(dir *os.File, name string, flags int) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symlink", path)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	switch user := os.Geteuid(); {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = fmt.Errorf("%s is no regular file", path)
	case int(st.Uid) != user:
		err = fmt.Errorf("%s is owned by user %d, and toolguard runs as user %d", path, st.Uid, user)
	case st.Mode&0o077 != 0:
		err = fmt.Errorf("%s has the mode %04o, and must be readable and writable by its owner alone: chmod 600 %s", path, st.Mode&0o7777, path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lockFile locks a file of a folder for this process alone, until it's closed. The file stays; if another process has removed it in the
// meantime, the lock is on the wrong file, and the next one is tried.
func lockFile(dir *os.File, name string) (*os.File, error) {
	for {
		lock, err := openOwn(dir, name, unix.O_RDWR|unix.O_CREAT)
		if err != nil {
			return nil, err
		}
		if err := flock(lock); err != nil {
			return nil, err
		}
		var ours, named unix.Stat_t
		err = unix.Fstat(int(lock.Fd()), &ours)
		if err == nil && unix.Fstatat(int(dir.Fd()), name, &named, unix.AT_SYMLINK_NOFOLLOW) == nil && ours.Ino == named.Ino && ours.Dev == named.Dev {
			return lock, nil
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// flock waits for the lock, for a while. After an error the file is closed, or will be as soon as the kernel has given the lock.
func flock(file *os.File) error {
	fd := int(file.Fd())
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		err := unix.Flock(fd, unix.LOCK_EX)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return errors.Join(&os.PathError{Op: "flock", Path: file.Name(), Err: err}, file.Close())
		}
		return nil
	case <-time.After(maxWait):
		go func() {
			<-done
			file.Close()
		}()
		return fmt.Errorf("another process has had the lock %s for %s", file.Name(), maxWait)
	}
}

// readFile returns the content of a file; nil if there is none. advice is what to do about one that is too large.
func readFile(dir *os.File, name, advice string) ([]byte, error) {
	file, err := openOwn(dir, name, unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSize+2))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSize+1:
		return nil, fmt.Errorf("%s is larger than %d KiB: %s", file.Name(), maxSize>>10, advice)
	}
	return text, nil
}

// replaceFile writes a file so that it has either its old or its new content, whenever the process or the machine stops. The caller has
// the lock, so what is at the temporary name is of a process that was killed.
func replaceFile(dir *os.File, name string, text []byte) (err error) {
	temporary := name + ".new"
	if err := unix.Unlinkat(int(dir.Fd()), temporary, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlink", Path: filepath.Join(dir.Name(), temporary), Err: err}
	}
	file, err := openOwn(dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), temporary, int(dir.Fd()), name)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(int(dir.Fd()), temporary, 0))
	}
	return dir.Sync()
}
