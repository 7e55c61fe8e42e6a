package policyload

import (
	"os"
	"runtime"
	"strings"
	"syscall"
)

// terminal returns the terminal that one of the three standard streams is, or "". Only Linux has it in /proc.
func terminal() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	for _, fd := range []string{"0", "1", "2"} {
		if name, err := os.Readlink("/proc/self/fd/" + fd); err == nil && (strings.HasPrefix(name, "/dev/pts/") || strings.HasPrefix(name, "/dev/tty")) {
			return name
		}
	}
	return ""
}

// controlled reports whether there is a controlling terminal. When none of the three standard streams is one, its input is
// for other programs.
func controlled() bool {
	tty, err := syscall.Open("/dev/tty", syscall.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == nil {
		_ = syscall.Close(tty)
	}
	return err == nil
}
