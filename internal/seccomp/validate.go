package seccomp

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// Validate checks what each authority declares about system calls: the profile's name, and that every name is a system call that
// may be allowed or denied. The error is policy.Errors.
func Validate(c *policy.Compiled) error {
	var errs policy.Errors
	for _, l := range c.Layers {
		errs = append(errs, validate(l.Syscalls)...)
	}
	return errs.Err()
}

func validate(s policy.Syscalls) (errs policy.Errors) {
	add := func(hint, format string, args ...any) {
		errs = append(errs, &policy.Error{Position: s.Position, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}
	if s.Profile != "" && s.Profile != "default" && s.Profile != "strict" {
		add(`use "default" or "strict"`, "unknown profile of system calls %q", s.Profile)
	}
	for _, name := range s.Allow {
		switch {
		case !known(name):
			add(nearest(name), "unknown system call %q", name)
		case whyNotAllowable(name) != "":
			add(whyNotAllowable(name), "the system call %q can't be allowed by name", name)
		case slices.Contains(s.Deny, name):
			add("", "the system call %q is both allowed and denied", name)
		}
	}
	for _, name := range s.Deny {
		switch {
		case !known(name):
			add(nearest(name), "unknown system call %q", name)
		case slices.Contains(needed, name):
			add("", "no command can start or end without the system call %q", name)
		}
	}
	return errs
}

// nearest returns a hint with the known name that is the fewest edits away, if it is near.
func nearest(name string) string {
	best, at := "", 3
	for _, c := range calls {
		if c.nr[amd64] < 0 {
			continue
		}
		if d := editDistance(name, c.name); d < at {
			best, at = c.name, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// editDistance is the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
