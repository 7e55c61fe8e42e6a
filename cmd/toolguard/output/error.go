package output

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// UsageError is an error in the command line: one line, with a hint to the help.
type UsageError struct {
	Command string // with the commands above it
	Msg     string
	Hint    string // the probably intended word; may be empty
}

func (u *UsageError) Error() string { return u.Msg }

// mostErrors is how many errors a screen shows.
const mostErrors = 20

// Failure shows why a command failed.
func (s *Screen) Failure(err error) {
	defer s.flush()
	var mistakes policy.Errors
	var mistake *policy.Error
	var u *UsageError
	switch {
	case errors.As(err, &mistakes):
		for i, m := range mistakes {
			if i == mostErrors {
				s.line("%s… and %s more", s.prefix(), Count(len(mistakes)-i, "error"))
				break
			}
			s.mistake(m)
		}
	case errors.As(err, &mistake):
		s.mistake(mistake)
	case errors.As(err, &u):
		s.line("%s%s", s.prefix(), Clean(u.Msg))
		if u.Hint != "" {
			s.line("  %s", Clean(u.Hint))
		}
		s.line("  '%s --help' shows how it's used", u.Command)
	default:
		s.line("%s%s", s.prefix(), Clean(errorText(err)))
	}
}

// Crash reports a panic in toolguard itself.
func (s *Screen) Crash(p any, stack []byte) {
	defer s.flush()
	s.line("%sa mistake in toolguard: %s", s.prefix(), Clean(fmt.Sprint(p)))
	s.line("  please report it with these lines and what you ran")
	for line := range strings.Lines(string(stack)) {
		s.line("  %s", Clean(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")))
	}
}

// errorText is an error without the name of the system call that it comes from, unless what wraps it has words of its own.
func errorText(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Error() == err.Error() {
		return pe.Path + ": " + pe.Err.Error()
	}
	return err.Error()
}

func (s *Screen) mistake(e *policy.Error) {
	s.line("%s%s: %s", s.prefix(), s.in(bold, Clean(e.Position.String())), Clean(e.Msg))
	if e.Hint != "" {
		s.line("  %s", Clean(e.Hint))
	}
}
