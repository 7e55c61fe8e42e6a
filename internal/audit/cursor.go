package audit

import (
	"encoding/json"
	"errors"
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

// maxCursors bounds the file that says how far sinks are.
const maxCursors = 1 << 20

// ReadCursors says how far each sink is, by its name. The file is the shipper's, who isn't root, so nothing in its place makes root wait,
// follow, or read without end.
func ReadCursors(name string) (map[string]Cursor, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it's no regular file")
	}
	var told struct {
		Sinks map[string]struct{ Cursor Cursor }
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxCursors)).Decode(&told)
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
