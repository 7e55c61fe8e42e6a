package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Cursor is a place between two lines of a spool. The zero value is where it begins.
type Cursor struct {
	Chain    string `json:"chain"` // the spool's id
	File     uint64 `json:"file"`
	Offset   int64  `json:"offset"`
	Sequence uint64 `json:"sequence"`       // of the line before; 0: none
	Hash     string `json:"hash,omitempty"` // of that line; "": nobody knows
}

// MaxSinks bounds how many sinks there may be, and maxState the file that says how they are.
const (
	MaxSinks = 64
	maxState = 512 << 10
)

// ReadState reads into v the file in which the shipper says how its sinks are. The shipper isn't root, so nothing in its place makes root
// wait, follow, or read without end.
func ReadState(name string, v any) error {
	text, err := readSmall(name, maxState)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	return err
}

// ReadCursors says how far each sink is, by its name.
func ReadCursors(name string) (map[string]Cursor, error) {
	told := struct{ Sinks cursors }{cursors{}}
	if err := ReadState(name, &told); err != nil {
		return nil, fmt.Errorf("see in %s how far sinks are: %w", name, err)
	}
	return told.Sinks, nil
}

// cursors are those of a bounded number of sinks: they're read often, while others wait.
type cursors map[string]Cursor

// UnmarshalJSON reads no more than there may be.
func (c cursors) UnmarshalJSON(text []byte) error {
	in := json.NewDecoder(bytes.NewReader(text))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return errors.New("the sinks are no object")
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
			return fmt.Errorf("there are more than %d sinks, or one twice", MaxSinks)
		}
		c[sink] = s.Cursor
	}
	return nil
}
