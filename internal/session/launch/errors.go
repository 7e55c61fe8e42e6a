package launch

import (
	"errors"
	"fmt"
	"strings"
)

// NotFound is the error for a command that doesn't exist: exit status 127.
type NotFound struct{ Name string }

func (e *NotFound) Error() string {
	if e.Name == "" {
		return "the name of the command is empty"
	}
	if !strings.Contains(e.Name, "/") {
		return e.Name + ": no such command in PATH"
	}
	return e.Name + ": no such command"
}

// NotExecutable is the error for a command that may not be executed: exit status 126.
type NotExecutable struct {
	Path string
	Why  string
}

func (e *NotExecutable) Error() string {
	return fmt.Sprintf("%s may not be executed: %s", e.Path, e.Why)
}

// ErrWithoutDenials is the reason that denials aren't read when the caller doesn't want them.
var ErrWithoutDenials = errors.New("they aren't asked for")
