package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Cursor is a position between two lines of a spool. The zero value is the spool's beginning.
type Cursor struct {
	Chain    string `json:"chain"` // the spool's id
	File     uint64 `json:"file"`
	Offset   int64  `json:"offset"`
	Sequence uint64 `json:"sequence"`       // of the previous line; 0: none
	Hash     string `json:"hash,omitempty"` // of that line; "": unknown
}

// MaxSinks is the maximum number of sinks, and maxState the maximum size of the shipper's state file.
const (
	MaxSinks = 64
	maxState = 512 << 10
)

// ReadState reads the shipper's state file into v. The shipper isn't root, so the file is hostile: root must not block on it,
// follow a symlink, or read without end.
func ReadState(name string, v any) error {
	text, err := readSmall(name, maxState)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	return err
}

// ReadCursors returns the cursor of each sink by its name.
func ReadCursors(name string) (map[string]Cursor, error) {
	state := struct{ Sinks cursors }{cursors{}}
	if err := ReadState(name, &state); err != nil {
		return nil, fmt.Errorf("read the sinks' cursors from %s: %w", name, err)
	}
	return state.Sinks, nil
}

// cursors decodes the cursors of at most MaxSinks sinks. toolguardd reads them often, with the spool locked.
type cursors map[string]Cursor

// UnmarshalJSON stops at MaxSinks.
func (c cursors) UnmarshalJSON(text []byte) error {
	in := json.NewDecoder(bytes.NewReader(text))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return errors.New("sinks isn't an object")
	}
	for in.More() {
		name, err := in.Token()
		var s struct{ Cursor Cursor }
		if err == nil {
			err = in.Decode(&s)
		}
		if err != nil {
			return err
		}
		sink, _ := name.(string)
		if _, twice := c[sink]; twice || len(c) == MaxSinks {
			return fmt.Errorf("there are more than %d sinks, or duplicates", MaxSinks)
		}
		c[sink] = s.Cursor
	}
	return nil
}
