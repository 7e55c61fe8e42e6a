package mounts

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// Host is the file system of this machine.
type Host struct{ hostfs.Machine }

// IsSocket reports whether a unix socket is at a path.
func (Host) IsSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// List returns entries of a folder.
func (Host) List(dir string, limit int) ([]Entry, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	entries := make([]Entry, len(list))
	for i, e := range list {
		entries[i] = Entry{e.Name(), kindOf(e.Type())}
	}
	return entries, err
}

func kindOf(mode fs.FileMode) fspath.Kind {
	switch {
	case mode.IsDir():
		return fspath.Dir
	case mode&fs.ModeSymlink != 0:
		return fspath.Symlink
	}
	return fspath.File
}

// Inode returns what is at a path.
func (Host) Inode(path string) (Inode, uint32, error) {
	fd, err := open(path, unix.O_PATH)
	if err != nil {
		return Inode{}, 0, err
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	if err != nil {
		return Inode{}, 0, err
	}
	return inodeOf(st), st.Nlink, nil
}

// open opens a path that has no symlinks.
func open(path string, flags uint64) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

func statOf(fd int) (*unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return &st, err
}

func inodeOf(st *unix.Statx_t) Inode {
	i := Inode{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Number: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		i.Birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return i
}
