package mounts

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Verify fails unless every mount of the plan is in place in the calling process's mount namespace. It must run there before the command, with
// no Landlock domain: between New and the mounting, a process outside the session could replace a part of a path by a symlink.
func Verify(mounts []Mount) error {
	for _, m := range mounts {
		if err := m.verify(); err != nil {
			return &fs.PathError{Op: "verify the " + m.Mode.String() + " mount on", Path: m.Path, Err: err}
		}
	}
	return nil
}

func (m *Mount) verify() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, m.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("the kernel doesn't report mount points: it takes Linux 5.8")
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 && m.Path != "/" {
		return errors.New("nothing is mounted there")
	}
	var fsys unix.Statfs_t
	if err := unix.Fstatfs(fd, &fsys); err != nil {
		return err
	}
	readOnly := fsys.Flags&unix.ST_RDONLY != 0
	switch {
	case m.Mode == ReadOnly && !readOnly:
		return errors.New("it can be written")
	case m.Mode == Hidden:
		return m.verifyHidden(readOnly, fsys.Type)
	}
	return nil
}

// verifyHidden fails if anything can be read: a file must not open, a folder must not open or be empty, or have only mount points.
func (m *Mount) verifyHidden(readOnly bool, fsType int64) error {
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	if m.Dir {
		flags |= unix.O_DIRECTORY
	}
	if !readOnly && m.Path != tmp {
		return errors.New("it can be written")
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, m.Path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
	switch {
	case errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	if !m.Dir {
		return verifyEmpty(fd)
	}
	if m.Open { // its entries lead to mounts of the plan, which are verified by themselves
		if fsType != unix.TMPFS_MAGIC {
			return errors.New("nothing covers it")
		}
		return nil
	}
	buf := make([]byte, 4096)
	n, err := unix.ReadDirent(fd, buf)
	if err != nil {
		return err
	}
	if _, count, _ := unix.ParseDirent(buf[:n], -1, nil); count > 0 {
		return fmt.Errorf("it has %d entries", count)
	}
	return nil
}

func verifyEmpty(fd int) error {
	n, err := unix.Read(fd, make([]byte, 1))
	if n > 0 {
		return errors.New("it can be read")
	}
	return err
}
