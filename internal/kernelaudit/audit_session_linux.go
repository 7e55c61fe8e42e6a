package kernelaudit

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FreshSession gives the calling thread, which must be locked, a new audit session, and returns its number. Processes
// that the thread starts inherit it. The audit user stays what it is, or becomes the real user where it was unset.
//
// Setting it again needs CAP_AUDIT_CONTROL, and can't be done at all where the administrator made it immutable
// (audit feature "loginuid-immutable"). Checked on Linux 6.18: a write by one thread changes that thread alone.
func FreshSession() (uint32, error) {
	if err := renewLogin("/proc/thread-self/loginuid"); err != nil {
		return NoSession, fmt.Errorf("start an audit session: %w", err)
	}
	ses, err := readNumber("/proc/thread-self/sessionid")
	if err != nil {
		return NoSession, fmt.Errorf("read the audit session: %w", err)
	}
	if ses == NoSession {
		return NoSession, fmt.Errorf("start an audit session: the kernel gave none: %w", unix.ENOTSUP)
	}
	return ses, nil
}

// unsetUser is how the kernel writes the audit user of a process that never logged in.
const unsetUser = "4294967295"

// renewLogin sets the audit user to what it is.
func renewLogin(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return &fs.PathError{Op: "read", Path: path, Err: err}
	}
	user := b[:n]
	if string(user) == unsetUser {
		user = strconv.AppendInt(nil, int64(os.Getuid()), 10)
	}
	if _, err := unix.Pwrite(fd, user, 0); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func readNumber(path string) (uint32, error) {
	line, err := readLine(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(line, 10, 32)
	return uint32(n), err
}

// readLine reads a file of /proc that holds one short line. Package os would take six more system calls for it.
func readLine(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var b [64]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return strings.TrimRight(string(b[:n]), "\n\x00"), nil
}
