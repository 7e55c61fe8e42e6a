package mounts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Verify fails unless every mount of the plan is in place in the calling process's mount namespace. It must run there before the command, with
// no Landlock domain: between New and the mounting, a process outside the session could replace a part of a path by a symlink.
func Verify(mounts []Mount) error {
	for _, m := range mounts {
		if err := m.verify(mounts); err != nil {
			return &fs.PathError{Op: "verify the " + m.Mode.String() + " mount on", Path: m.Path, Err: err}
		}
	}
	return nil
}

func (m *Mount) verify(all []Mount) error {
	fd, err := m.open(unix.O_PATH)
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
	if fsys.Flags&unix.ST_RDONLY == 0 && m.Mode != ReadWrite && m.Path != tmp {
		return errors.New("it can be written")
	}
	if m.Mode == Hidden {
		return m.verifyHidden(all)
	}
	return nil
}

func (m *Mount) open(flags uint64) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, m.Path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// verifyHidden fails if anything can be read: a file must not open or be empty, a folder must have nothing but what leads to other mounts.
func (m *Mount) verifyHidden(all []Mount) error {
	fd, err := m.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	switch {
	case errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return err
	}
	f := os.NewFile(uintptr(fd), m.Path)
	defer f.Close()
	if !m.Dir {
		if n, err := f.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			return errors.New("it can be read")
		}
		return nil
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(o Mount) bool { return fspath.Within(o.Path, m.Path+"/"+name) }) {
			return fmt.Errorf("it has %q", name)
		}
	}
	return nil
}
