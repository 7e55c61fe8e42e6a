package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// Sockets returns the sockets of systemd units (sd_listen_fds(3)) by their names.
func Sockets() (map[string]net.Listener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	if err != nil || n != len(names) {
		return nil, fmt.Errorf("systemd passes %q sockets named %q: one name is needed for each", os.Getenv("LISTEN_FDS"), names)
	}
	all := map[string]net.Listener{}
	for i, name := range names {
		f := os.NewFile(uintptr(3+i), name)
		l, err := net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("use the socket %s that systemd passed: %w", name, err)
		}
		all[name] = l
	}
	return all, nil
}

// Notify sends a state to systemd (sd_notify(3)), if it started this process.
func Notify(text string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(text))
	return err
}
