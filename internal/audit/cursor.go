package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Cursor is a place between two lines of a spool. The zero value is where it begins.
type Cursor struct {
	Chain    string `json:"chain"` // the spool's id
	File     uint64 `json:"file"`
	Offset   int64  `json:"offset"`
	Sequence uint64 `json:"sequence"` // of the line before; 0: none
}

// MaxSinks bounds how many sinks there may be, and maxState the file that says how they are.
const (
	MaxSinks = 64
	maxState = 128 << 10
)

// ReadState reads into v the file in which the shipper says how its sinks are. The shipper isn't root, so nothing in its place makes root
// wait, follow, or read without end.
func ReadState(name string, v any) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxState) {
		err = fmt.Errorf("%s is no regular file of %d bytes at most", name, maxState)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxState)).Decode(v)
	}
	return err
}

// ReadCursors says how far each sink is, by its name.
func ReadCursors(name string) (map[string]Cursor, error) {
	var told struct {
		Sinks map[string]struct{ Cursor Cursor }
	}
	err := ReadState(name, &told)
	if err == nil && len(told.Sinks) > MaxSinks {
		err = fmt.Errorf("there are more than %d", MaxSinks)
	}
	if err != nil {
		return nil, fmt.Errorf("see in %s how far sinks are: %w", name, err)
	}
	all := make(map[string]Cursor, len(told.Sinks))
	for sink, s := range told.Sinks {
		all[sink] = s.Cursor
	}
	return all, nil
}
