package launch

import (
	"fmt"
	"strings"
)

// NotFound says that there is no such command: exit status 127.
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

// NotExecutable says that the command is there and may not be executed: exit status 126.
type NotExecutable struct {
	Path string
	Why  string
}

func (e *NotExecutable) Error() string {
	return fmt.Sprintf("%s may not be executed: %s", e.Path, e.Why)
}
