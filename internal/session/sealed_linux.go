package session

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Provide returns a server that gives the command a text to read: a descriptor of a sealed file, named by a variable as /proc/self/fd/N.
// Neither the command nor another process can change the text.
func Provide(variable string, text []byte) Server {
	return func(Serving) (*Served, error) {
		file, err := sealedFile(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		return &Served{
			Env: []string{fmt.Sprintf("%s=/proc/self/fd/%d", variable, file.Fd())}, Files: []*os.File{file}, Close: func() { _ = file.Close() },
		}, nil
	}
}

// sealedFile returns a descriptor, open for reading alone, of a file in memory with the text, which can't be changed any more.
func sealedFile(text []byte) (_ *os.File, err error) {
	fd, err := unix.MemfdCreate("toolguard", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("toolguard", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "toolguard")
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return nil, err
	}
	if err := unix.Fchmod(fd, 0o400); err != nil {
		return nil, os.NewSyscallError("fchmod", err)
	}
	seals := unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, os.NewSyscallError("fcntl(F_ADD_SEALS)", err)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}
