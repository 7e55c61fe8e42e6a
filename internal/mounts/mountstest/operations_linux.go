package mountstest

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// perform does one operation; its words are separated by "|", since paths have blanks.
func perform(op string) syscall.Errno {
	w := append(strings.Split(op, "|"), "", "")
	open := func(flags int) error {
		fd, err := unix.Open(w[1], flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o666)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	var err error
	switch w[0] {
	case "read":
		err = open(unix.O_RDONLY)
	case "write":
		err = open(unix.O_WRONLY)
	case "create":
		err = open(unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL)
	case "stat":
		err = unix.Stat(w[1], new(unix.Stat_t))
	case "chmod":
		err = unix.Chmod(w[1], 0o777)
	case "mkdir":
		err = unix.Mkdir(w[1], 0o777)
	case "unlink":
		err = unix.Unlink(w[1])
	case "rmdir":
		err = unix.Rmdir(w[1])
	case "rename":
		err = unix.Rename(w[1], w[2])
	case "link":
		err = unix.Link(w[1], w[2])
	case "symlink":
		err = unix.Symlink(w[1], w[2])
	case "execute":
		err = execute(w[1])
	case "empty": // a folder that can be listed and has nothing
		var list []os.DirEntry
		if list, err = os.ReadDir(w[1]); err == nil && len(list) > 0 {
			err = unix.ENOTEMPTY
		}
	case "processes": // ENOENT if there are others than those of the session
		if _, err = os.Stat("/proc/" + w[1]); err == nil {
			return 0
		}
		err = unix.ENOENT
	default:
		panic(op)
	}
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		panic(err)
	}
	return errno
}

func execute(path string) error {
	p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}
