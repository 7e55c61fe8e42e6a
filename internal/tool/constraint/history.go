package constraint

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// The bounds of a history.
const (
	maxOpen = 256
	maxID   = 256 // bytes, of ids and invocations
)

// Call is a call of a tool that the policy allows, or asks about.
type Call struct {
	ID         string // "" for none
	Invocation string
	Arguments  string // a digest of the arguments as they were given
}

// History is what happened in one invocation.
type History struct {
	Started   map[string]int `json:"started"`   // calls that were allowed to run, by the tool's name
	Open      []Open         `json:"open"`      // calls that have an id and haven't ended, the oldest first
	Completed []string       `json:"completed"` // tools of which a call has ended without an error
}

// Open is a call that hasn't ended.
type Open struct {
	ID        string `json:"id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

// RejectedError is a request that contradicts the history: the request is wrong, not the store.
type RejectedError struct{ Text string }

func (e *RejectedError) Error() string { return e.Text }

// Store keeps the history of each invocation. When a method returns, what it has changed is on the disk.
//
// An error of the type *RejectedError is about the request. With any other the history is unknown, and the call must be denied.
type Store interface {
	// Check returns which constraint denies a call; nil for none. Nothing is counted.
	Check(c *Call, s *toolset.Settings) (*Denial, error)
	// Begin counts a call, unless a constraint denies it.
	Begin(c *Call, s *toolset.Settings) (*Denial, error)
	// End records that a call has ended, and whether without an error.
	End(invocation, id string, ok bool) error
}

// CheckNames rejects ids and invocations that no store keeps. id may be "".
func CheckNames(invocation, id string) error {
	switch {
	case invocation == "":
		return &RejectedError{"the policy has constraints, which are counted by invocation: the call must have an invocation"}
	case len(invocation) > maxID || len(id) > maxID:
		return &RejectedError{fmt.Sprintf("an invocation and an id have at most %d bytes", maxID)}
	case !utf8.ValidString(invocation) || !utf8.ValidString(id):
		return &RejectedError{"an invocation and an id are UTF-8"}
	}
	return nil
}

// Begin counts a call, unless a constraint denies it. changed is whether the history has changed.
func (h *History) Begin(c *Call, s *toolset.Settings) (d *Denial, changed bool, err error) {
	open := Open{c.ID, s.Name, c.Arguments}
	if i := h.open(c.ID); i >= 0 && !s.Forbidden {
		if h.Open[i] != open {
			return nil, false, &RejectedError{fmt.Sprintf("id %q is that of another call, of the tool %s, which hasn't ended", c.ID, h.Open[i].Tool)}
		}
		return nil, false, nil
	}
	if d := Check(s, h); d != nil {
		return d, false, nil
	}
	if h.Started == nil {
		h.Started = map[string]int{}
	}
	h.Started[s.Name]++
	if c.ID != "" {
		if h.Open = append(h.Open, open); len(h.Open) > maxOpen {
			h.Open = slices.Delete(h.Open, 0, 1)
		}
	}
	return nil, true, nil
}

// End records that a call has ended, and whether without an error.
func (h *History) End(id string, ok bool) error {
	i := h.open(id)
	if i < 0 {
		return &RejectedError{fmt.Sprintf("no call with the id %q is open in this invocation", id)}
	}
	c := h.Open[i]
	h.Open = slices.Delete(h.Open, i, i+1)
	if ok && !slices.Contains(h.Completed, c.Tool) {
		h.Completed = append(h.Completed, c.Tool)
	}
	return nil
}

// open returns the index of an open call; -1 for none.
func (h *History) open(id string) int {
	if id == "" {
		return -1
	}
	return slices.IndexFunc(h.Open, func(o Open) bool { return o.ID == id })
}

// Valid reports whether a history can be one that Begin and End have made.
func (h *History) Valid() bool {
	for tool, n := range h.Started {
		if tool == "" || n < 1 {
			return false
		}
	}
	for _, tool := range h.Completed {
		if h.Started[tool] == 0 {
			return false
		}
	}
	ids := map[string]bool{}
	for _, o := range h.Open {
		if o.ID == "" || len(o.ID) > maxID || h.Started[o.Tool] == 0 || ids[o.ID] {
			return false
		}
		ids[o.ID] = true
	}
	return len(h.Open) <= maxOpen
}
