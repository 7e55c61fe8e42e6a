//go:build linux && amd64

package differential

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// operation is one thing that a process does.
type operation struct {
	Do    string // a name of the table in want_test.go
	By    string // how its paths are handed to the kernel: "", "at", "chdir", "proc", "old"
	Path  string
	Path2 string // the new name
	Flags int
}

func (o operation) String() string {
	s := fmt.Sprintf("%s by %q %s", o.Do, o.By, short(o.Path))
	if o.Path2 != "" {
		s += " " + short(o.Path2)
	}
	return s + fmt.Sprintf(" flags %#x", o.Flags)
}

// short shortens long names.
func short(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if len(p) > 24 {
			parts[i] = fmt.Sprintf("%s…%d…%s", p[:4], len(p), p[len(p)-4:])
		}
	}
	return fmt.Sprintf("%q", strings.Join(parts, "/"))
}

// do does it, in whoever calls it. It's on one thread, with a current folder of its own.
func (o operation) do() syscall.Errno {
	a, err := o.reach(o.Path)
	if err != 0 {
		return err
	}
	defer a.leave()
	b := place{dir: unix.AT_FDCWD}
	if o.Path2 != "" {
		if b, err = o.reach(o.Path2); err != 0 {
			return err
		}
		defer b.leave()
	}
	return errno(o.at(a, b))
}

// place is a path from an open folder.
type place struct {
	dir  int
	name string
	fds  []int
}

func (p place) leave() {
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
}

// reach prepares the way to a path that the operation asks for.
func (o operation) reach(path string) (place, syscall.Errno) {
	folder, name := filepath.Split(path)
	switch o.By {
	case "at", "proc", "chdir":
		fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return place{}, errno(err)
		}
		if o.By == "at" {
			return place{fd, name, []int{fd}}, 0
		}
		if o.By == "proc" {
			return place{unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d/%s", fd, name), []int{fd}}, 0
		}
		if o.Path2 != "" || o.Do == "bind" { // one current folder for two paths
			return place{fd, "./" + name, []int{fd}}, 0
		}
		_ = unix.Fchdir(fd)
		return place{unix.AT_FDCWD, name, []int{fd}}, 0
	}
	return place{dir: unix.AT_FDCWD, name: path}, 0
}

// file opens where an operation on a descriptor starts.
func (p place) open(flags int) (int, error) {
	return unix.Openat(p.dir, p.name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o700)
}

func (o operation) at(a, b place) error {
	old := o.By == "old"
	switch o.Do {
	case "open":
		return o.open(a)
	case "open2":
		fd, err := unix.Openat2(a.dir, a.name, &unix.OpenHow{Flags: uint64(o.Flags) | unix.O_CLOEXEC | unix.O_NONBLOCK, Mode: o.mode()})
		return closed(fd, err)
	case "truncate":
		return unix.Truncate(a.path(), 0)
	case "mkdir":
		if old {
			return call(unix.SYS_MKDIR, str(a.name), 0o700)
		}
		return unix.Mkdirat(a.dir, a.name, 0o700)
	case "mknod":
		if old {
			return call(unix.SYS_MKNOD, str(a.name), uintptr(o.Flags|0o600), 0x103)
		}
		return unix.Mknodat(a.dir, a.name, uint32(o.Flags|0o600), 0x103)
	case "symlink":
		if old {
			return call(unix.SYS_SYMLINK, str("nowhere"), str(a.name))
		}
		return unix.Symlinkat("nowhere", a.dir, a.name)
	case "bind":
		return bind(a)
	case "unlink":
		if old {
			return call(unix.SYS_UNLINK, str(a.name))
		}
		return unix.Unlinkat(a.dir, a.name, 0)
	case "rmdir":
		if old {
			return call(unix.SYS_RMDIR, str(a.name))
		}
		return unix.Unlinkat(a.dir, a.name, unix.AT_REMOVEDIR)
	case "rename":
		if old && o.Flags == 0 {
			return call(unix.SYS_RENAME, str(a.name), str(b.name))
		}
		return unix.Renameat2(a.dir, a.name, b.dir, b.name, uint(o.Flags))
	case "link":
		if old && o.Flags == 0 {
			return call(unix.SYS_LINK, str(a.name), str(b.name))
		}
		return unix.Linkat(a.dir, a.name, b.dir, b.name, o.Flags)
	case "link_fd":
		fd, err := a.open(unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(fd, "", b.dir, b.name, unix.AT_EMPTY_PATH)
	case "connect":
		return connect(a)
	case "execve":
		return execute(a)
	case "map":
		return mapped(a)
	}
	return o.metadata(a)
}

// metadata are the operations that change what is known of a file.
func (o operation) metadata(a place) error {
	times := []unix.Timespec{{Sec: 1}, {Sec: 2}}
	old := o.By == "old"
	switch o.Do {
	case "chmod":
		if old {
			return call(unix.SYS_CHMOD, str(a.name), 0o755)
		}
		return unix.Fchmodat(a.dir, a.name, 0o755, 0)
	case "fchmod":
		fd, err := a.open(unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fchmod(fd, 0o755)
	case "chown":
		if old && o.Flags != 0 {
			return call(unix.SYS_LCHOWN, str(a.name), 0, 0)
		}
		return unix.Fchownat(a.dir, a.name, 0, 0, o.Flags)
	case "utimes":
		if old && o.Flags == 0 {
			return call(unix.SYS_UTIME, str(a.name), 0)
		}
		return unix.UtimesNanoAt(a.dir, a.name, times, o.Flags)
	case "futimes":
		fd, err := a.open(unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0)
	case "setxattr":
		return unix.Setxattr(a.path(), "user.t", []byte("1"), 0)
	case "lsetxattr":
		return unix.Lsetxattr(a.path(), "user.t", []byte("1"), 0)
	case "removexattr":
		return unix.Removexattr(a.path(), "user.t")
	case "setacl":
		return unix.Setxattr(a.path(), "system.posix_acl_access", []byte("\x02\x00\x00\x00"+
			"\x01\x00\x07\x00\xff\xff\xff\xff\x04\x00\x05\x00\xff\xff\xff\xff\x20\x00\x05\x00\xff\xff\xff\xff"), 0)
	case "setflags":
		fd, err := a.open(unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x80) // FS_NOATIME_FL
	}
	panic("nothing known of " + o.Do)
}

// path is for calls that have no variant with a folder.
func (p place) path() string {
	if p.dir != unix.AT_FDCWD {
		return fmt.Sprintf("/proc/self/fd/%d/%s", p.dir, p.name)
	}
	return p.name
}

func (o operation) open(a place) error {
	flags := o.Flags | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	switch {
	case o.By == "old" && flags&^unix.O_CLOEXEC&^unix.O_NONBLOCK&^unix.O_NOCTTY == unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC:
		fd, _, errno := unix.Syscall(unix.SYS_CREAT, str(a.name), 0o700, 0)
		return closed(int(fd), nonzero(errno))
	case o.By == "old":
		fd, _, errno := unix.Syscall(unix.SYS_OPEN, str(a.name), uintptr(flags), 0o700)
		return closed(int(fd), nonzero(errno))
	}
	fd, err := unix.Openat(a.dir, a.name, flags, 0o700)
	return closed(fd, err)
}

// mode is what openat2 takes only with a flag that makes files.
func (o operation) mode() uint64 {
	if o.Flags&(unix.O_CREAT|unix.O_TMPFILE) != 0 {
		return 0o700
	}
	return 0
}

func bind(a place) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	name := a.path()
	if len(name) > 107 {
		return unix.Mknodat(a.dir, a.name, unix.S_IFSOCK|0o600, 0)
	}
	return unix.Bind(fd, &unix.SockaddrUnix{Name: name})
}

func connect(a place) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	name := a.path()
	if len(name) > 107 { // what an address has room for
		to, err := a.open(unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(to)
		name = fmt.Sprintf("/proc/self/fd/%d", to)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != unix.EAGAIN { // its queue is full
		return err
	}
	return nil
}

// execute forks first: what it executes ends at once.
func execute(a place) error {
	pid, err := syscall.ForkExec(a.path(), []string{"x"}, &syscall.ProcAttr{Env: []string{}})
	if err != nil {
		return err
	}
	_, err = syscall.Wait4(pid, nil, 0, nil)
	return err
}

func mapped(a place) error {
	fd, err := a.open(unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(mem)
}

func call(nr uintptr, args ...uintptr) error {
	var a [4]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], 0, 0)
	return nonzero(errno)
}

// kept are the strings of the last calls: nothing else holds them while the kernel reads them.
var kept [8]*byte

func str(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	copy(kept[1:], kept[:])
	kept[0] = p
	return uintptr(unsafe.Pointer(p))
}

func nonzero(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func closed(fd int, err error) error {
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return err.(syscall.Errno) //nolint:errorlint // what makes system calls returns nothing else
}
