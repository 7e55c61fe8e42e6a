package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

// ReadLimits reads toolguardd's settings. What they don't say is as by default, as is all where there's no file.
func ReadLimits(path string) (Limits, error) {
	file := struct {
		User Limits `toml:"user"`
	}{DefaultLimits}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultLimits, nil
	} else if err != nil {
		return Limits{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Limits{}, err
	}
	if st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Limits{}, fmt.Errorf("%s must be a file of root's that nobody else can write", path)
	}
	err = toml.NewDecoder(io.LimitReader(f, 1<<20)).DisallowUnknownFields().Decode(&file)
	if err != nil {
		return Limits{}, mistake(path, err)
	}
	l := file.User
	if min(l.Sessions, l.Connections, l.Policies, l.Lines) < 1 {
		return Limits{}, fmt.Errorf("%s: sessions, connections, policies and lines must be at least 1", path)
	}
	return l, nil
}

// mistake says where in a file what is wrong.
func mistake(path string, err error) error {
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		line, col := unknown.Errors[0].Position()
		return fmt.Errorf("%s:%d:%d: there is no such key: [user] has sessions, connections, policies and lines", path, line, col)
	case errors.As(err, &wrong):
		line, col := wrong.Position()
		return fmt.Errorf("%s:%d:%d: %w", path, line, col, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// SetLimits has other limits count from now on. Who has more already keeps it.
func (d *Daemon) SetLimits(l Limits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg.Limits = l
}

// connections is how many a user may have.
func (d *Daemon) connections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.Limits.Connections
}
