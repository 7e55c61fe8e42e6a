package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const cursorFolder = "cursors"

// Cursor is a place between two lines of a spool. The zero value is where it begins.
type Cursor struct {
	File     uint64 `json:"file"`
	Offset   int64  `json:"offset"`
	Sequence uint64 `json:"sequence"` // of the line before; 0: none
}

// Save keeps a sink's cursor. What is before it may be removed once all sinks are past it.
func (c Cursor) Save(folder, sink string) error {
	name := filepath.Join(folder, cursorFolder, sink)
	text, err := json.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err == nil {
		err = replace(name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep how far %s is: %w", sink, err)
	}
	return nil
}

// LoadCursor is what was kept for a sink; the spool's beginning where nothing was.
func LoadCursor(folder, sink string) (c Cursor, err error) {
	text, err := os.ReadFile(filepath.Join(folder, cursorFolder, sink))
	if absent(err) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("see how far %s is: %w", sink, err)
	}
	return c, nil
}

// cursors are those of all sinks.
func cursors(folder string) (all []Cursor, err error) {
	entries, err := os.ReadDir(filepath.Join(folder, cursorFolder))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".new" {
			continue
		}
		c, err := LoadCursor(folder, e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, err
}
