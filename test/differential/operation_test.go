//go:build linux && amd64

package differential

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// operation is one operation of a process.
type operation struct {
	Do    string // a name of the table in want_test.go
	By    string // how: its paths whole (""), from a folder ("at", "chdir", "proc"), from itself ("fd"), or by which call ("old", "older", "new")
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

// fileOf identifies an open file.
func fileOf(fd int) fspath.FileID {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return fspath.FileID{}
	}
	return fspath.FileID{Dev: st.Dev, Inode: st.Ino}
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

// do executes the operation in the calling process, on one thread with its own current folder.
func (o operation) do() (r result) {
	var a, b target
	defer func() {
		a.leave()
		b.leave()
		switch e := recover().(type) {
		case nil:
		case syscall.Errno:
			r.Errno = e
		default:
			panic(e)
		}
	}()
	o.reach(&a, o.Path)
	if o.Path2 != "" {
		o.reach(&b, o.Path2)
	}
	switch o.Do {
	case "open", "open2", "reopen", "map", "mprotect":
		r.File = o.opens(&a)
	case "mkdir", "mknod", "symlink", "bind", "unlink", "rmdir", "rename", "link", "link_fd", "link_tmp":
		ok(o.name(&a, &b))
	case "connect", "send":
		ok(o.connect(&a))
	case "execve", "execveat":
		o.execute(&a)
	case "stat", "access", "readlink", "watch":
		ok(o.inspect(&a))
	default:
		ok(o.metadata(&a))
	}
	return r
}

// ok ends the current operation with its error.
func ok(err error) {
	if err != nil {
		panic(err.(syscall.Errno)) //nolint:errorlint // what makes system calls returns nothing else
	}
}

// got returns a result, or ends the operation with its error.
func got[T any](result T, err error) T {
	ok(err)
	return result
}

// target is a path from an open folder.
type target struct {
	dir  int
	name string
	fds  []int // are closed at the end
}

func (p *target) leave() {
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
}

// closeLater closes a descriptor at the end.
func (p *target) closeLater(fd int, err error) int {
	ok(err)
	p.fds = append(p.fds, fd)
	return fd
}

// reach prepares access to a path in the way that the operation names.
func (o operation) reach(p *target, path string) {
	p.dir, p.name = unix.AT_FDCWD, path
	folder, name := filepath.Split(path)
	flags := unix.O_DIRECTORY
	switch o.By {
	default:
		return
	case "fd":
		folder, flags = path, 0
	case "at", "chdir", "proc":
	}
	fd := p.closeLater(unix.Open(folder, unix.O_PATH|unix.O_CLOEXEC|flags, 0))
	p.name = name
	switch {
	case o.By == "fd":
		p.name = fmt.Sprintf("/proc/self/fd/%d", fd)
	case o.By == "proc":
		p.name = fmt.Sprintf("/proc/self/fd/%d/%s", fd, name)
	case o.By == "chdir" && o.Path2 == "" && o.Do != "bind": // there is one current folder for two paths
		ok(unix.Fchdir(fd))
	default:
		p.dir = fd
	}
}

// open opens the descriptor of an operation on a descriptor.
func (p *target) open(flags int) int {
	return p.closeLater(unix.Openat(p.dir, p.name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o700))
}

// socket makes one.
func (p *target) socket(kind int) int {
	return p.closeLater(unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0))
}

// path is for calls that have no variant with a folder.
func (p *target) path() string {
	if p.dir != unix.AT_FDCWD {
		return fmt.Sprintf("/proc/self/fd/%d/%s", p.dir, p.name)
	}
	return p.name
}

// opens does the operations that open files.
func (o operation) opens(a *target) fspath.FileID {
	fd := a.closeLater(o.open(a))
	if o.Do == "map" || o.Do == "mprotect" {
		o.mapped(fd)
	}
	return fileOf(fd)
}

func (o operation) open(a *target) (int, error) {
	flags := o.Flags | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	switch {
	case o.Do == "open2":
		return unix.Openat2(a.dir, a.name, &unix.OpenHow{Flags: uint64(o.Flags) | unix.O_CLOEXEC | unix.O_NONBLOCK, Mode: o.mode()})
	case o.Do == "reopen":
		return unix.Open(fmt.Sprintf("/proc/self/fd/%d", a.open(unix.O_PATH)), flags, 0)
	case o.By == "old" && o.Flags == unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC && !fifo(a.name): // which would block
		return fd(unix.Syscall(unix.SYS_CREAT, str(a.name), 0o700, 0))
	case o.By == "old":
		return fd(unix.Syscall(unix.SYS_OPEN, str(a.name), uintptr(flags), 0o700))
	}
	return unix.Openat(a.dir, a.name, flags, 0o700)
}

func fd(r, _ uintptr, errno syscall.Errno) (int, error) { return int(r), nonzero(errno) }

func fifo(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// mode is for openat2, which accepts it only with a flag that creates files.
func (o operation) mode() uint64 {
	if o.Flags&(unix.O_CREAT|unix.O_TMPFILE) != 0 {
		return 0o700
	}
	return 0
}

func (o operation) mapped(fd int) {
	first := unix.PROT_READ
	if o.Do == "map" {
		first |= unix.PROT_EXEC
	}
	mem := got(unix.Mmap(fd, 0, os.Getpagesize(), first, unix.MAP_PRIVATE))
	defer func() { _ = unix.Munmap(mem) }()
	if o.Do == "mprotect" {
		ok(unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC))
	}
}

// name creates, removes or moves names.
func (o operation) name(a, b *target) error {
	old := o.By == "old"
	switch o.Do {
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
		if o.By == "older" && o.Flags == 0 {
			return call(unix.SYS_RENAMEAT, uintptr(a.dir), str(a.name), uintptr(b.dir), str(b.name))
		}
		return unix.Renameat2(a.dir, a.name, b.dir, b.name, uint(o.Flags))
	}
	return o.link(a, b)
}

func (o operation) link(a, b *target) error {
	switch o.Do {
	case "link":
		if o.By == "old" && o.Flags == 0 {
			return call(unix.SYS_LINK, str(a.name), str(b.name))
		}
		return unix.Linkat(a.dir, a.name, b.dir, b.name, o.Flags)
	case "link_fd":
		fd := a.open(unix.O_PATH)
		if o.Flags == unix.AT_EMPTY_PATH {
			return unix.Linkat(fd, "", b.dir, b.name, o.Flags)
		}
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), b.dir, b.name, o.Flags)
	default: // link_tmp
		fd := a.open(unix.O_TMPFILE | unix.O_WRONLY)
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), b.dir, b.name, unix.AT_SYMLINK_FOLLOW)
	}
}

func bind(a *target) error {
	name := a.path()
	if len(name) > 107 {
		return unix.Mknodat(a.dir, a.name, unix.S_IFSOCK|0o600, 0)
	}
	return unix.Bind(a.socket(unix.SOCK_STREAM), &unix.SockaddrUnix{Name: name})
}

// connect connects, or sends without a connection.
func (o operation) connect(a *target) (err error) {
	kind := unix.SOCK_STREAM
	if o.Flags != 0 || o.Do == "send" {
		kind = unix.SOCK_DGRAM
	}
	fd, to := a.socket(kind|unix.SOCK_NONBLOCK), unix.SockaddrUnix{Name: a.path()}
	if len(to.Name) > 107 { // the capacity of an address
		to.Name = fmt.Sprintf("/proc/self/fd/%d", a.open(unix.O_PATH))
	}
	if o.Do == "send" {
		err = unix.Sendto(fd, nil, 0, &to)
	} else {
		err = unix.Connect(fd, &to)
	}
	if err == unix.EAGAIN { // its queue is full
		return nil
	}
	return err
}

// execute forks first: the executed program ends at once, or "execveat" with the errno.
func (o operation) execute(a *target) {
	path, args, attr := a.path(), []string{"x"}, &syscall.ProcAttr{Env: []string{}}
	if o.Do == "execveat" {
		path, args = programs+"/execveat", []string{"x", path}
		if o.Flags == unix.AT_EMPTY_PATH {
			attr.Files = []uintptr{0, 1, 2, uintptr(a.open(unix.O_PATH))}
			args[1] = ""
		}
	}
	pid := got(syscall.ForkExec(path, args, attr))
	var ws syscall.WaitStatus
	got(syscall.Wait4(pid, &ws, 0, nil))
	ok(nonzero(syscall.Errno(ws.ExitStatus())))
}

// inspect only reads metadata.
func (o operation) inspect(a *target) error {
	switch o.Do {
	case "stat":
		var st unix.Stat_t
		return unix.Fstatat(a.dir, a.name, &st, o.Flags)
	case "access":
		return unix.Faccessat(a.dir, a.name, uint32(o.Flags), 0)
	case "readlink":
		return o.readlink(a)
	}
	_, err := unix.InotifyAddWatch(a.closeLater(unix.InotifyInit1(unix.IN_CLOEXEC)), a.path(), unix.IN_ALL_EVENTS|uint32(o.Flags))
	return err
}

func (o operation) readlink(a *target) error {
	var text [1]byte
	switch {
	case o.By == "old":
		return call(unix.SYS_READLINK, str(a.name), uintptr(unsafe.Pointer(&text[0])), 1)
	case o.Flags == unix.AT_EMPTY_PATH:
		_, err := unix.Readlinkat(a.closeLater(unix.Openat(a.dir, a.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)), "", text[:])
		return err
	}
	_, err := unix.Readlinkat(a.dir, a.name, text[:])
	return err
}

// metadata changes a file's content or metadata.
func (o operation) metadata(a *target) error {
	switch o.Do {
	case "truncate":
		return unix.Truncate(a.path(), 0)
	case "chmod":
		return o.chmod(a)
	case "chown":
		if o.By == "old" && o.Flags != 0 {
			return call(unix.SYS_LCHOWN, str(a.name), 0, 0)
		}
		if o.By == "old" {
			return call(unix.SYS_CHOWN, str(a.name), 0, 0)
		}
		return unix.Fchownat(a.dir, a.name, 0, 0, o.Flags)
	case "utimes":
		return o.utimes(a)
	case "setxattr", "lsetxattr", "removexattr", "lremovexattr", "setacl", "removeacl":
		return o.xattr(a)
	}
	flags := unix.O_RDONLY
	if o.Do == "ftruncate" {
		flags = unix.O_WRONLY
	}
	return o.fd(a.open(flags))
}

// fd does the same to an open file.
func (o operation) fd(fd int) error {
	switch o.Do {
	case "ftruncate":
		return unix.Ftruncate(fd, 0)
	case "fchmod":
		return unix.Fchmod(fd, 0o755)
	case "fchown":
		return unix.Fchown(fd, 0, 0)
	case "futimes":
		return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0)
	case "fsetxattr":
		return unix.Fsetxattr(fd, "user.t", []byte("1"), 0)
	case "fremovexattr":
		return unix.Fremovexattr(fd, "user.t")
	case "setflags":
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, got(unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS))|0x80) // FS_NOATIME_FL
	}
	panic("nothing known of " + o.Do)
}

func (o operation) chmod(a *target) error {
	switch o.By {
	case "old":
		return call(unix.SYS_CHMOD, str(a.name), 0o755)
	case "new":
		return call(unix.SYS_FCHMODAT2, uintptr(a.dir), str(a.name), 0o755, 0)
	}
	return unix.Fchmodat(a.dir, a.name, 0o755, 0)
}

func (o operation) utimes(a *target) error {
	switch {
	case o.By == "old" && o.Flags == 0:
		return call(unix.SYS_UTIME, str(a.name), 0)
	case o.By == "older" && o.Flags == 0:
		return call(unix.SYS_FUTIMESAT, uintptr(a.dir), str(a.name), 0)
	}
	return unix.UtimesNanoAt(a.dir, a.name, []unix.Timespec{{Sec: 1}, {Sec: 2}}, o.Flags)
}

// What golang.org/x/sys doesn't have yet; since Linux 6.13.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466
)

func (o operation) xattr(a *target) error {
	const acl = "\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff\x04\x00\x05\x00\xff\xff\xff\xff\x20\x00\x05\x00\xff\xff\xff\xff"
	switch o.Do {
	case "setxattr":
		if o.By == "new" {
			value := []byte("1")
			args := struct {
				value       uint64
				size, flags uint32
			}{uint64(uintptr(unsafe.Pointer(&value[0]))), 1, 0}
			defer runtime.KeepAlive(value)
			_, _, errno := unix.Syscall6(sysSetxattrat, uintptr(a.dir), str(a.name), 0, str("user.t"), uintptr(unsafe.Pointer(&args)), 16)
			return nonzero(errno)
		}
		return unix.Setxattr(a.path(), "user.t", []byte("1"), 0)
	case "lsetxattr":
		return unix.Lsetxattr(a.path(), "user.t", []byte("1"), 0)
	case "removexattr":
		if o.By == "new" {
			return call(sysRemovexattrat, uintptr(a.dir), str(a.name), 0, str("user.t"))
		}
		return unix.Removexattr(a.path(), "user.t")
	case "lremovexattr":
		return unix.Lremovexattr(a.path(), "user.t")
	case "setacl":
		return unix.Setxattr(a.path(), "system.posix_acl_access", []byte(acl), 0)
	}
	return unix.Removexattr(a.path(), "system.posix_acl_access")
}

func call(nr uintptr, args ...uintptr) error {
	var a [4]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], 0, 0)
	return nonzero(errno)
}

// kept references the strings of the last calls while the kernel reads them.
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
