package peer

import (
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Listen makes a socket at path, for root and the group toolguard. What is at path is removed: the caller has made sure that nobody listens there.
func Listen(path string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // the lock shows that no other toolguardd listens there
		return nil, err
	}
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, err
	}
	return l, share(path)
}

// share gives access to the group toolguard, if there is one.
func share(path string) error {
	g, err := user.LookupGroup("toolguard")
	if err != nil {
		return nil // root alone
	}
	gid, err := strconv.Atoi(g.Gid)
	if err == nil {
		err = os.Chown(path, 0, gid)
	}
	if err == nil {
		err = os.Chmod(path, 0o660)
	}
	return err
}
