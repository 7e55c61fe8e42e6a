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
	const loginuid = "/proc/thread-self/loginuid"
	user, err := readNumber(loginuid)
	if err != nil {
		return NoSession, fmt.Errorf("read the audit user: %w", err)
	}
	if user == unset {
		user = uint32(os.Getuid())
	}
	_, err = withFile(loginuid, unix.O_WRONLY, func(fd int) (int, error) {
		return unix.Write(fd, strconv.AppendUint(nil, uint64(user), 10))
	})
	if err != nil {
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
	var b [64]byte
	n, err := withFile(path, unix.O_RDONLY, func(fd int) (int, error) { return unix.Read(fd, b[:]) })
	return strings.TrimRight(string(b[:n]), "\n\x00"), err
}

func withFile(path string, flags int, do func(fd int) (int, error)) (n int, err error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		n, err = do(fd)
		_ = unix.Close(fd)
	}
	if err != nil {
		return 0, &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return n, nil
}
