package proc

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryFile returns a file without a name, at its beginning, that has a text. Nothing can execute it (MFD_NOEXEC_SEAL, Linux 6.3; before, it's
// only not marked so).
func MemoryFile(name string, text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
