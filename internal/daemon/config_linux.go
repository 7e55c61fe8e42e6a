package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/audit"
)

// Settings are the contents of the settings file.
type Settings struct {
	User  Limits `toml:"user"`
	Audit Audit  `toml:"audit"`
}

// Audit bounds the audit.
type Audit struct {
	Size     int64 `toml:"size"`
	FileSize int64 `toml:"file_size"`
	FileAge  age   `toml:"file_age"`
	OnFull   full  `toml:"on_full"`
}

// Limits returns the limits of package audit.
func (a Audit) Limits() audit.Limits {
	return audit.Limits{Size: a.Size, FileSize: a.FileSize, FileAge: time.Duration(a.FileAge), Drop: bool(a.OnFull)}
}

// DefaultSettings are the settings without a file.
func DefaultSettings() Settings {
	l := audit.DefaultLimits
	return Settings{DefaultLimits, Audit{l.Size, l.FileSize, age(l.FileAge), full(l.Drop)}}
}

// age is a duration, "24h".
type age time.Duration

func (a *age) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < time.Minute {
		return errors.New("write a duration of a minute or more, such as \"24h\"")
	}
	*a = age(d)
	return nil
}

// full is the action when the audit is full: true is "drop".
type full bool

func (f *full) UnmarshalText(text []byte) error {
	if s := string(text); s != "deny" && s != "drop" {
		return errors.New("write \"deny\" or \"drop\"")
	}
	*f = string(text) == "drop"
	return nil
}

// ReadSettings reads the settings file. A missing key or a missing file means the default.
func ReadSettings(path string) (Settings, error) {
	file := DefaultSettings()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	} else if err != nil {
		return Settings{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Settings{}, err
	}
	if st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Settings{}, fmt.Errorf("%s must be a regular file that belongs to root and that no other user can write", path)
	}
	err = toml.NewDecoder(io.LimitReader(f, 1<<20)).DisallowUnknownFields().Decode(&file)
	if err != nil {
		return Settings{}, withPosition(path, err)
	}
	if l := file.User; min(l.Sessions, l.Networks, l.Connections, l.Policies, l.Lines) < 1 {
		return Settings{}, fmt.Errorf("%s: sessions, networks, connections, policies and lines must be at least 1", path)
	}
	if a := file.Audit; a.Size < 16<<20 || a.FileSize < 1<<20 {
		return Settings{}, fmt.Errorf("%s: the audit's size must be at least %d bytes, and its file_size %d", path, 16<<20, 1<<20)
	}
	return file, nil
}

// withPosition adds the position in the file to an error.
func withPosition(path string, err error) error {
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		line, col := unknown.Errors[0].Position()
		return fmt.Errorf("%s:%d:%d: there is no such key: [user] has sessions, networks, connections, policies and lines, [audit] has "+
			"size, file_size, file_age and on_full", path, line, col)
	case errors.As(err, &wrong):
		line, col := wrong.Position()
		return fmt.Errorf("%s:%d:%d: %w", path, line, col, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// SetLimits changes the limits. What exceeds them already stays.
func (d *Daemon) SetLimits(l Limits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg.Limits = l
}

// connections is a user's limit of connections.
func (d *Daemon) connections() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.Limits.Connections
}
