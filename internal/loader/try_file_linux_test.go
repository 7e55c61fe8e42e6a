package loader

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	times = []unix.Timespec{{Sec: 1}, {Sec: 2}}
	now   = []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	acl   = []byte{2, 0, 0, 0, 1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff}
)

// metadata is tried where it's granted and where it isn't.
var metadata = []struct {
	name string
	do   func(name string) func(p *tryState) error
}{
	{"chmod", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Chmod(p, 0o640) })
	}},
	{"fchmod", func(n string) func(p *tryState) error {
		return with(n, unix.O_RDONLY, func(fd int) error { return unix.Fchmod(fd, 0o644) })
	}},
	{"chown", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Chown(p, 1, 1) })
	}},
	{"lchown", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Lchown(p, 0, 0) })
	}},
	{"fchown", func(n string) func(p *tryState) error {
		return with(n, unix.O_RDONLY, func(fd int) error { return unix.Fchown(fd, 0, 0) })
	}},
	{"utimes", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, times, 0) })
	}},
	{"utimes now", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, now, 0) })
	}},
	{"utimes without times", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Utimes(p, nil) })
	}},
	{"futimens", func(n string) func(p *tryState) error {
		return with(n, unix.O_RDONLY, func(fd int) error {
			_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
			return errno(e)
		})
	}},
	{"setxattr", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Setxattr(p, "trusted.x", []byte("1"), 0) })
	}},
	{"lsetxattr", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Lsetxattr(p, "trusted.y", []byte("1"), 0) })
	}},
	{"fsetxattr", func(n string) func(p *tryState) error {
		return with(n, unix.O_RDONLY, func(fd int) error { return unix.Fsetxattr(fd, "trusted.z", []byte("1"), 0) })
	}},
	{"removexattr", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Removexattr(p, "trusted.old") })
	}},
	{"set an ACL", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Setxattr(p, "system.posix_acl_access", acl, 0) })
	}},
	{"remove an ACL", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Removexattr(p, "system.posix_acl_access") })
	}},
	{"truncate", func(n string) func(p *tryState) error {
		return path(n, func(p string) error { return unix.Truncate(p, 1) })
	}},
	{"open to truncate", func(n string) func(p *tryState) error { return opening(n, unix.O_RDONLY|unix.O_TRUNC) }},
	{"open for writing", func(n string) func(p *tryState) error { return opening(n, unix.O_WRONLY) }},
	{"open for ioctl", func(n string) func(p *tryState) error { return opening(n, unix.O_ACCMODE) }},
	{"change flags", func(n string) func(p *tryState) error {
		return with(n, unix.O_RDONLY, func(fd int) error {
			flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|0x40) // nodump
		})
	}},
}

func errno(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

var fileTries = []try{
	{"list the topmost folder", func(*tryState) error {
		fd, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}, eacces, nil},
	// Where creating is granted and updating is, too: before Linux 6.2 the hook doesn't show how the file is open.
	{"ftruncate what was created", func(p *tryState) error {
		return with("all/cut", unix.O_CREAT|unix.O_RDWR, func(fd int) error { return unix.Ftruncate(fd, 10) })(p)
	}, nil, nil},
	// The mode prevents an ACL from making it a setgid program that every user can execute.
	{"set an ACL on a setgid file", func(p *tryState) error {
		return with("all/setgid", unix.O_WRONLY, func(fd int) error { return unix.Fsetxattr(fd, "system.posix_acl_access", acl, 0) })(p)
	}, eperm, nil},
	{"read flags", func(p *tryState) error {
		return with("ro/file", unix.O_RDONLY, func(fd int) error { _, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); return err })(p)
	}, nil, nil},
	{"isatty", func(p *tryState) error {
		return with("ro/file", unix.O_RDONLY, func(fd int) error { _, err := unix.IoctlGetTermios(fd, unix.TCGETS); return err })(p)
	}, unix.ENOTTY, unix.ENOTTY},
	{"unknown ioctl", func(p *tryState) error {
		return with("ro/file", unix.O_RDONLY, func(fd int) error { return unix.IoctlSetInt(fd, 0x4004f5ff, 0) })(p)
	}, eacces, unix.ENOTTY},
	{"make a snapshot where everything is granted", func(p *tryState) error {
		return with("all", unix.O_RDONLY, func(fd int) error {
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0x50009417, 0) // BTRFS_IOC_SNAP_CREATE_V2
			if e == unix.EFAULT || e == unix.ENOTTY {                           // btrfs was asked, or one that has none
				return nil
			}
			return errno(e)
		})(p)
	}, eperm, nil},
	{"map memory executable", func(*tryState) error {
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err == nil {
			err = unix.Munmap(m)
		}
		return err
	}, nil, nil},
	{"map a file executable where executing is granted", mapFile("all/file", unix.PROT_READ|unix.PROT_EXEC), nil, nil},
	{"map a file executable where it isn't", mapFile("change/file", unix.PROT_READ|unix.PROT_EXEC), eacces, nil},
	{"make a mapped file executable where it isn't", mapFile("change/file", unix.PROT_READ), eacces, nil},
	{"type into a terminal", typeInto, eperm, nil},
	{"make a userfaultfd by its device", faults, eperm, nil},
	{"open memory as it was made", memory(unix.O_RDWR, unix.O_RDWR), nil, nil},
	{"open memory again for reading", memory(unix.O_RDONLY, unix.O_RDONLY), nil, nil},
	{"open memory that is open for reading for writing", memory(unix.O_RDONLY, unix.O_RDWR), eacces, nil},
	{"cut memory off that is open for reading as it's opened", memory(unix.O_RDONLY, unix.O_RDONLY|unix.O_TRUNC), eacces, nil},
	{"cut memory off by its name", cut(unix.O_RDONLY), eacces, nil},
	{"cut memory off that is open for writing", cut(unix.O_RDWR), nil, nil},
	{"watch what may be read", func(p *tryState) error { return watch(rel(p, "ro")) }, nil, nil},
	{"watch what may not", func(p *tryState) error { return watch(rel(p, "none")) }, eacces, nil},
	{"watch by dnotify", func(p *tryState) error {
		fd, err := unix.Open(rel(p, "ro"), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_NOTIFY, 4)
		return err
	}, nil, nil},
	{"change times where it's granted, and by another mount of it where it isn't, in turn", func(p *tryState) (err error) {
		for range 3 {
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, rel(p, "change/file"), times, 0); err != nil {
				return fmt.Errorf("where it's granted: %w", err)
			}
			err = unix.UtimesNanoAt(unix.AT_FDCWD, rel(p, "bound/file"), times, 0)
		}
		return err
	}, eacces, nil},
	{"read a link that may be read", path("ro/to-file", readlink), nil, nil},
	{"read a link that may not", path("none/to-ro", readlink), eacces, nil},
	{"read a link by descriptor, where it may not", with("none/to-ro", unix.O_PATH|unix.O_NOFOLLOW, func(fd int) error {
		_, err := unix.Readlinkat(fd, "", make([]byte, 10))
		return err
	}), eacces, nil},
	{"go through a link that may not be read", opening("none/to-ro/file", unix.O_RDONLY), nil, nil},
	{"read a link beyond one that may not be read", path("none/to-ro/to-file", readlink), nil, nil},
	{"read no link where it may not", func(p *tryState) error { return readlink(rel(p, "none/file")) }, unix.EINVAL, unix.EINVAL},
	{"receive what may be read", receive("ro/file r"), nil, nil},
	{"receive what may not be read", receive("none/file r"), eacces, nil},
	{"receive for writing what may be read", receive("ro/file w"), eacces, nil},
	{"receive for writing what may be updated", receive("change/file w"), nil, nil},
	{"receive a name only", receive("none/file p"), nil, nil},
	{"receive a pipe", receive("pipe"), nil, nil},
	{"receive memory", receive("memfd"), nil, nil},
	{"receive a unix socket", receive("unix"), nil, nil},
	{"receive an internet socket", receive("inet"), eacces, nil},
}

// mapFile maps a file, and then makes it executable, if it isn't yet.
func mapFile(name string, prot int) func(p *tryState) error {
	return with(name, unix.O_RDONLY, func(fd int) error {
		m, err := unix.Mmap(fd, 0, 4096, prot, unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Munmap(m) }()
		return unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC)
	})
}

func readlink(path string) error {
	_, err := unix.Readlink(path, make([]byte, 10))
	return err
}

func watch(path string) error {
	fd, err := unix.InotifyInit1(0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_CREATE)
	return err
}

func typeInto(*tryState) error {
	master, slave, err := pty()
	if err != nil {
		return err
	}
	defer unix.Close(master)
	defer unix.Close(slave)
	c := byte('x')
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(slave), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	return errno(e)
}

// memory has a memfd open in one way alone, and opens it in another.
func memory(first, again int) func(*tryState) error {
	return remembered(first, func(name string) error {
		fd, err := unix.Open(name, again|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	})
}

func cut(first int) func(*tryState) error {
	return remembered(first, func(name string) error { return unix.Truncate(name, 0) })
}

// remembered has a memfd open in one way alone, and does something by the name that /proc has for it.
func remembered(how int, do func(name string) error) func(*tryState) error {
	return func(*tryState) error {
		name := func(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
		made, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		fd, err := unix.Open(name(made), how|unix.O_CLOEXEC, 0)
		_ = unix.Close(made)
		if err != nil {
			return fmt.Errorf("at first: %w", err)
		}
		defer unix.Close(fd)
		return do(name(fd))
	}
}

func faults(*tryState) error {
	fd, err := unix.Open("/dev/userfaultfd", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	made, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0xaa00, unix.O_CLOEXEC) // USERFAULTFD_IOC_NEW
	if e == 0 {
		_ = unix.Close(int(made))
	}
	return errno(e)
}

func pty() (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, -1, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, -1, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, -1, err
	}
	slave, err = unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}

// receive asks the test for a descriptor.
func receive(what string) func(p *tryState) error {
	return func(p *tryState) error {
		if _, err := unix.Write(p.fds, []byte(what)); err != nil {
			return err
		}
		buf, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
		_, n, flags, _, err := unix.Recvmsg(p.fds, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return err
		}
		if n == 0 && flags&unix.MSG_CTRUNC != 0 {
			return eacces
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil || len(msgs) != 1 {
			return fmt.Errorf("%d messages: %w", len(msgs), err)
		}
		fds, err := unix.ParseUnixRights(&msgs[0])
		if err != nil {
			return err
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil
	}
}

// giveOne answers receive.
func giveOne(sock int, dir string) {
	buf := make([]byte, 100)
	n, err := unix.Read(sock, buf)
	if err != nil || n == 0 {
		return
	}
	fd := -1
	switch what := string(buf[:n]); what {
	case "pipe":
		var p [2]int
		_ = unix.Pipe(p[:])
		fd = p[0]
	case "memfd":
		fd, _ = unix.MemfdCreate("x", 0)
	case "unix":
		fd, _ = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	case "inet":
		fd, _ = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	default:
		name, how, _ := strings.Cut(what, " ")
		flags := map[string]int{"r": unix.O_RDONLY, "w": unix.O_RDWR, "p": unix.O_PATH}[how]
		if fd, err = unix.Open(filepath.Join(dir, name), flags, 0); err != nil {
			panic(err)
		}
	}
	defer unix.Close(fd)
	if err := unix.Sendmsg(sock, []byte("x"), unix.UnixRights(fd), nil, 0); err != nil {
		panic(err)
	}
}
