package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Source is where approvals are listed and decided.
type Source interface {
	// List returns the approvals that are pending, and those decided recently.
	List(ctx context.Context) ([]message.Approval, error)
	// Watch calls changed with the list, at first, after each change, and perhaps more often, until ctx is done. It returns early only with
	// an error.
	Watch(ctx context.Context, changed func([]message.Approval)) error
	// Decide decides about a pending approval, by its whole id. Its errors are ErrGone, *DecidedError, or others.
	Decide(ctx context.Context, id string, d message.Decided) (message.Decided, error)
}

// ErrGone means that there is no such approval: it expired, was withdrawn, or never was.
var ErrGone = errors.New("there is no such approval: it has expired, was withdrawn, or was decided some time ago")

// DecidedError means that an approval was decided already.
type DecidedError struct{ Decision string }

func (e *DecidedError) Error() string {
	if e.Decision == "" {
		return "it was decided already"
	}
	return "it was decided already: " + e.Decision
}

// Pending reports whether an approval can still be decided.
func Pending(a *message.Approval, now time.Time) bool {
	return a.Decision == nil && a.Resolved == 0 && (a.Expires == 0 || now.UnixMilli() < a.Expires)
}

// Sort sorts approvals, the oldest first.
func Sort(list []message.Approval) {
	slices.SortStableFunc(list, func(a, b message.Approval) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Session, b.Session), strings.Compare(a.ID, b.ID))
	})
}

// Find returns the approval with an id, or the only one whose id begins so. An error is ErrGone, or names the ids that begin so.
func Find(list []message.Approval, prefix string) (*message.Approval, error) {
	var found []*message.Approval
	for i := range list {
		switch a := &list[i]; {
		case a.ID == prefix:
			return a, nil
		case prefix != "" && strings.HasPrefix(a.ID, prefix):
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return nil, ErrGone
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, a := range found[:min(len(found), 5)] {
		ids = append(ids, Quote(a.ID))
	}
	return nil, fmt.Errorf("%d approvals have an id that begins with %s: %s; write more of it", len(found), Quote(prefix), strings.Join(ids, ", "))
}
