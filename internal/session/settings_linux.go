package session

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// settingsFile is what root says of every start on this machine: `daemon = "require"`.
const settingsFile = "/etc/toolguard/exec.toml"

// daemonSetting is what the settings file says of toolguardd, and where it does; "" where there is no such file or it says nothing.
func daemonSetting(file string) (value, where string, err error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // package os would take ten times as long, at every start
	if errors.Is(err, unix.ENOENT) {
		return "", "", nil
	} else if err != nil {
		return "", "", &os.PathError{Op: "open", Path: file, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", "", os.NewSyscallError("fstat", err)
	}
	if !policyfile.OwnedByRoot(st.Uid) || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", "", fmt.Errorf("%s must be a file of root's that nobody else can write", file)
	}
	text := make([]byte, 4096)
	n, err := unix.Read(fd, text)
	if err != nil || n == len(text) {
		return "", "", fmt.Errorf("%s can't be read, or has more than %d bytes: %w", file, len(text)-1, err)
	}
	return parseSettings(file, string(text[:n]))
}

// parseSettings reads the one key that there is. What it takes is TOML, but not all that TOML takes.
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
			return "", "", fmt.Errorf("%s:%d: there is only the key daemon", file, n)
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
