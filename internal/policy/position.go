package policy

import (
	"fmt"
	"strings"
)

// Position is a position in a policy file. Line and Col count from 1; Line 0 means the whole file.
// Built-in rules have a File such as "builtin:runtime" or "preset:go" and real lines in that file.
type Position struct {
	File string
	Line int
	Col  int
}

func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// LineCol is a position in a known file. Line 0 means none.
type LineCol struct{ Line, Col int32 }

// At returns s as a position in p's file, or p if s is none.
func (p Position) At(s LineCol) Position {
	if s.Line == 0 {
		return p
	}
	return Position{p.File, int(s.Line), int(s.Col)}
}

// Error is one mistake in a policy: where, what, and what to do about it.
type Error struct {
	Position Position
	Msg      string // lower case; what is wrong, with the key or value
	Hint     string // what to do next; may be empty
}

func (e *Error) Error() string {
	s := e.Position.String() + ": " + e.Msg
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Errors is every mistake found in one pass, in file order. It's an error when not empty.
type Errors []*Error

func (l Errors) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns l as an error, or nil when it is empty.
func (l Errors) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}
