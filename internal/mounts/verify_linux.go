package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// errChanged is the error for what a process outside the session replaced.
var errChanged = errors.New("it was changed while the session started: try again")

// Verify fails unless every mount of the plan is in place in the calling process's mount namespace, and shows what was at its path when the plan
// was made. It must run there before the command, with no Landlock domain: between New and the mounting, a process outside the session
// could replace a part of a path by a symlink, or by another file or folder.
func Verify(mounts []Mount) error {
	for _, m := range mounts {
		if err := m.verify(mounts); err != nil {
			return &fs.PathError{Op: "verify the " + m.Mode.String() + " mount on", Path: m.Path, Err: err}
		}
	}
	return nil
}

func (m *Mount) verify(all []Mount) error {
	fd, err := open(m.Path, unix.O_PATH)
	if err != nil {
		return fmt.Errorf("%w (%w)", errChanged, err)
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	if err != nil {
		return err
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("the kernel doesn't report mount points: it takes Linux 5.8")
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 && m.Path != "/" {
		return errors.New("nothing is mounted there: it was changed while the session started, or the program made no mounts")
	}
	var fsys unix.Statfs_t
	if err := unix.Fstatfs(fd, &fsys); err != nil {
		return err
	}
	if m.Mode != Hidden && inodeOf(st) != m.Inode {
		return fmt.Errorf("%w (another file or folder is mounted there)", errChanged)
	}
	if fsys.Flags&unix.ST_RDONLY == 0 && m.Mode != ReadWrite && m.Path != tmp {
		return errors.New("it can be written")
	}
	if m.Mode != Hidden {
		return nil
	}
	if !m.isStandIn(st, &fsys) {
		return fmt.Errorf("%w (it isn't empty)", errChanged)
	}
	return m.verifyHidden(all)
}

// isStandIn reports whether a hidden path shows what bubblewrap or firejail has for it: bubblewrap mounts /dev/null without devices or a new tmpfs
// without permissions, and firejail a file or folder of root's that no other user can open.
func (m *Mount) isStandIn(st *unix.Statx_t, fsys *unix.Statfs_t) bool {
	permissions := st.Mode & 0o777
	if st.Uid == 0 && os.Geteuid() != 0 && permissions&0o077 == 0 {
		return true
	}
	if !m.Dir {
		isNull := st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev_major == 1 && st.Rdev_minor == 3
		return isNull && fsys.Flags&unix.ST_NODEV != 0
	}
	closed := permissions == 0 || m.Open && permissions == 0o111 || m.Path == tmp
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && fsys.Type == unix.TMPFS_MAGIC && closed
}

// verifyHidden fails if anything can be read: a file must not open, a folder must have nothing but what leads to other mounts.
func (m *Mount) verifyHidden(all []Mount) error {
	fd, err := open(m.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	switch {
	case errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return err
	}
	f := os.NewFile(uintptr(fd), m.Path)
	defer f.Close()
	if !m.Dir {
		return errors.New("it can be opened")
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
