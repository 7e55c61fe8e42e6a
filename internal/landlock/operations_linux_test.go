package landlock

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// perform performs an operation such as "read /a/b" or "rename /a /b", and returns the kernel's error.
func perform(operation string) syscall.Errno {
	words := strings.Fields(operation)
	do, ok := operations[words[0]]
	if !ok {
		panic("no such operation: " + operation)
	}
	err := do(words[1:])
	var e syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e
	}
	panic(operation + ": " + err.Error())
}

var operations = map[string]func([]string) error{
	"read":     opening(unix.O_RDONLY),
	"list":     opening(unix.O_RDONLY | unix.O_DIRECTORY),
	"write":    opening(unix.O_WRONLY),
	"append":   opening(unix.O_WRONLY | unix.O_APPEND),
	"readcut":  opening(unix.O_RDONLY | unix.O_TRUNC), // truncates without opening for writing
	"opencut":  opening(3 | unix.O_TRUNC),             // and for neither reading nor writing
	"create":   opening(unix.O_RDWR | unix.O_CREAT | unix.O_EXCL),
	"tmpfile":  opening(unix.O_RDWR | unix.O_TMPFILE),
	"path":     opening(unix.O_PATH),
	"stat":     func(a []string) error { var st unix.Stat_t; return unix.Stat(a[0], &st) },
	"truncate": func(a []string) error { return unix.Truncate(a[0], 1) },
	"mkdir":    func(a []string) error { return unix.Mkdir(a[0], 0o777) },
	"symlink":  func(a []string) error { return unix.Symlink("nowhere", a[0]) },
	"mkfifo":   func(a []string) error { return unix.Mkfifo(a[0], 0o666) },
	"mknod":    func(a []string) error { return unix.Mknod(a[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) },
	"unlink":   func(a []string) error { return unix.Unlink(a[0]) },
	"rmdir":    func(a []string) error { return unix.Rmdir(a[0]) },
	"rename":   func(a []string) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"link":   func(a []string) error { return unix.Link(a[0], a[1]) },
	"chroot": func(a []string) error { return unix.Chroot(a[0]) },
	"mount":  func(a []string) error { return unix.Mount("none", a[0], "tmpfs", 0, "") },
	"bind":   bindUnix,
	"exec":   execute,
	"signal": func(a []string) error {
		pid, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		return unix.Kill(pid, 0)
	},
	"trace": func(a []string) error {
		pid, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		return unix.PtraceSeize(pid)
	},
	"abstract": abstract,
	"tcp":      connectTCP,
	"bindtcp":  bindTCP,
	"fastopen": fastOpen,
	"udp":      sendUDP,
	"udpto":    sendToUDP,
	"bindudp":  bindUDP,
}

func opening(flags int) func([]string) error {
	return func(a []string) error {
		fd, err := unix.Open(a[0], flags|unix.O_CLOEXEC, 0o666)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

func bindUnix(a []string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrUnix{Name: a[0]})
}

func abstract(a []string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + a[0]})
}

// execute starts a program and waits; its exit status doesn't count.
func execute(a []string) error {
	p, err := os.StartProcess(a[0], a, &os.ProcAttr{})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

func tcpSocket(a []string) (int, *unix.SockaddrInet4, error) {
	port, err := strconv.Atoi(a[0])
	if err != nil {
		return -1, nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	return fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, err
}

func connectTCP(a []string) error {
	fd, to, err := tcpSocket(a)
	if err != nil {
		return err
	}
	return unix.Connect(fd, to)
}

func bindTCP(a []string) error {
	fd, to, err := tcpSocket(a)
	if err != nil {
		return err
	}
	return unix.Bind(fd, to)
}

// fastOpen connects in sendto, where some kernels don't call Landlock's connect hook.
func fastOpen(a []string) error {
	fd, to, err := tcpSocket(a)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to)
}

func udpSocket(a []string) (int, *unix.SockaddrInet4, error) {
	port, err := strconv.Atoi(a[0])
	if err != nil {
		return -1, nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	return fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, err
}

func sendUDP(a []string) error {
	fd, to, err := udpSocket(a)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	return unix.Send(fd, []byte("x"), 0)
}

func sendToUDP(a []string) error {
	fd, to, err := udpSocket(a)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), 0, to)
}

func bindUDP(a []string) error {
	fd, at, err := udpSocket(a)
	if err != nil {
		return err
	}
	return unix.Bind(fd, at)
}
