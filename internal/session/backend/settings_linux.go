package backend

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// settingsFile has root's settings for every start on this machine: `daemon = "require"`.
const settingsFile = "/etc/toolguard/exec.toml"

// daemonSetting returns the key daemon of the settings file, and its position; "": there is no file or no key.
func daemonSetting(file string) (value, where string, err error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // package os would take ten times as long, at every start
	if errors.Is(err, unix.ENOENT) {
		return "", "", nil
	} else if err != nil {
		return "", "", fmt.Errorf("root's settings for every session can't be read: %w; %s", &os.PathError{Op: "open", Path: file, Err: err}, settingsRemedy(file))
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", "", os.NewSyscallError("fstat", err)
	}
	if !hostfs.OwnedByRoot(st.Uid) || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", "", fmt.Errorf("%s must be a regular file that belongs to root and that no other user can write; %s", file, settingsRemedy(file))
	}
	text := make([]byte, 4096)
	n, err := unix.Read(fd, text)
	if err != nil {
		return "", "", &os.PathError{Op: "read", Path: file, Err: err}
	}
	if n == len(text) {
		return "", "", fmt.Errorf("%s has more than %d bytes: the only key in it is daemon", file, len(text)-1)
	}
	return parseSettings(file, string(text[:n]))
}

// settingsRemedy returns how root makes the settings file usable.
func settingsRemedy(file string) string {
	return fmt.Sprintf("as root: make it a regular file, chown root:root %[1]s, chmod 644 %[1]s", file)
}

// parseSettings parses the only key. It accepts a subset of TOML.
func parseSettings(file, text string) (value, where string, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, v, _ := strings.Cut(line, "=")
		switch key, v = strings.TrimSpace(key), strings.TrimSpace(v); {
		case key != "daemon":
			return "", "", fmt.Errorf(`%s:%d: unknown key %q: there is only the key daemon, such as daemon = "require"`, file, n, key)
		case where != "":
			return "", "", fmt.Errorf("%s:%d: daemon is there twice", file, n)
		case v != `"require"` && v != `"auto"`:
			return "", "", fmt.Errorf(`%s:%d: write daemon = "require" or daemon = "auto"`, file, n)
		default:
			value, where = strings.Trim(v, `"`), fmt.Sprintf("%s:%d", file, n)
		}
	}
	return value, where, nil
}
