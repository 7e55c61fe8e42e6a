package hostfs

import (
	"io/fs"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Mounts returns the mounts that this process sees.
func (Machine) Mounts() ([]fspath.Mount, error) {
	const table = "/proc/self/mountinfo"
	text, err := whole(table)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: table, Err: err}
	}
	return fspath.ParseMounts(text)
}

// whole reads a file of /proc, whose size is unknown. Every session start calls it, so it uses system calls directly.
func whole(name string) (string, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	b := make([]byte, 0, 16<<10)
	for {
		n, err := retry(func() (int, error) { return syscall.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return "", err
		}
		if n == 0 {
			return string(b), nil
		}
		if b = b[:len(b)+n]; cap(b)-len(b) < 4<<10 { // the kernel returns whole lines, as many as fit
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
	}
}
