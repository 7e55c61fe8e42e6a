package approval

import (
	"cmp"
	"slices"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Get returns an approval that is pending or ended less than Grace ago. The error is ErrUnknown, or ErrCancelled, which is one.
func (s *Set) Get(c Client, id string) (*message.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.visible(c, id)
	switch {
	case e == nil:
		return nil, ErrUnknown
	case e.state == cancelled:
		return nil, ErrCancelled
	}
	return e.copy(), nil
}

// Wait returns the decision about an approval as soon as there is one; nil: its time has ended. It also returns when the request is withdrawn
// (ErrCancelled), and when done is closed (ErrPending). An approval that ended more than Grace ago is ErrUnknown.
func (s *Set) Wait(c Client, id string, done <-chan struct{}) (*string, error) {
	s.mu.Lock()
	e := s.visible(c, id)
	s.mu.Unlock()
	if e == nil {
		return nil, ErrUnknown
	}
	select {
	case <-e.ended:
	case <-done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.state {
	case pending:
		return nil, ErrPending
	case cancelled:
		return nil, ErrCancelled
	}
	return e.Decision, nil
}

// List returns the pending approvals that a client may see, the oldest first.
func (s *Set) List(c Client) []message.Approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*entry
	for _, e := range s.entries {
		if e.state == pending && e.isFor(c) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	return approvals(found)
}

// Changes waits until there are approvals that have changed since a version, and returns them, the last changed one last, with the version
// of the next question. The first one is about version 0. An approval is returned when it's new, and again when it has ended: then it has
// Resolved, and without a decision it has expired or was withdrawn. One that ends more than Grace before the next question isn't returned
// again: what isn't in List any more has ended. When done is closed before there is a change, the list is empty.
func (s *Set) Changes(c Client, since uint64, done <-chan struct{}) ([]message.Approval, uint64) {
	for {
		s.mu.Lock()
		found := s.since(c, since)
		version, changed := s.version, s.changed
		s.mu.Unlock()
		if len(found) > 0 {
			return found, version
		}
		since = version
		select {
		case <-changed:
		case <-done:
			return nil, version
		}
	}
}

func (s *Set) since(c Client, version uint64) []message.Approval {
	if version > s.version { // of a set that is gone
		version = 0
	}
	var found []*entry
	for at := s.order.Back(); at != nil; at = at.Prev() {
		e := at.Value.(*entry)
		if e.version <= version {
			break
		}
		if e.isFor(c) {
			found = append(found, e)
		}
	}
	slices.Reverse(found)
	return approvals(found)
}

func approvals(entries []*entry) []message.Approval {
	list := make([]message.Approval, len(entries))
	for i, e := range entries {
		list[i] = e.Approval
	}
	return list
}
