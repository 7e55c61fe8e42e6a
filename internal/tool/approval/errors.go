package approval

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrUnknown: no approval has the id, or it has ended, or another client has asked for it.
	ErrUnknown = errors.New("no approval with this id is pending: it has expired, was withdrawn, or never existed")
	// ErrCancelled: the requester has withdrawn the approval. It's an ErrUnknown.
	ErrCancelled = fmt.Errorf("the request was withdrawn: %w", ErrUnknown)
	// ErrPending: nobody has decided yet.
	ErrPending = errors.New("the approval is still pending")
	// ErrConfined: a confined process decides about no approval.
	ErrConfined = errors.New("a process in a session can't decide about approvals: run toolguard approvals outside it")
)

// RejectedError is a request that can't be put to a person.
type RejectedError struct{ Text string }

func (e *RejectedError) Error() string { return e.Text }

func rejected(format string, args ...any) error { return &RejectedError{fmt.Sprintf(format, args...)} }

// ConflictError is a request with the id of another one.
type ConflictError struct{ ID string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the id %.40q is that of another request: use another id, or none", e.ID)
}

// DecidedError is a second decision, or a withdrawal after the decision.
type DecidedError struct{ Decision string }

func (e *DecidedError) Error() string { return "it's already decided: " + e.Decision }

// NotOfferedError is a decision that isn't possible for an approval.
type NotOfferedError struct {
	Decision string
	Offers   []string
}

func (e *NotOfferedError) Error() string {
	return fmt.Sprintf("the decision %.40q isn't possible here: use one of %s", e.Decision, strings.Join(e.Offers, ", "))
}

// FullError is a request beyond a limit.
type FullError struct{ Text string }

func (e *FullError) Error() string { return e.Text }
