package approval

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Resolve decides about an approval. Of several decisions one counts. Before it does, store stores it, if it isn't nil: it's called
// once, without a lock, with the approval as it's decided, and a decision that it returns an error for isn't made. A time that ends
// while a decision is stored, ends after it. If a request is withdrawn while its decision is stored, what was stored remains, and the error is
// ErrCancelled.
//
// The error is ErrConfined, ErrUnknown, a *DecidedError, a *NotOfferedError, or wraps that of store.
func (s *Set) Resolve(c Client, id, decision string, by message.By, store func(*message.Approval) error) error {
	if !c.Unconfined {
		return ErrConfined
	}
	e, a, err := s.claim(id, decision, by)
	if err != nil {
		return err
	}
	stored := false
	defer func() { // also if store panics
		if !stored {
			s.release(e)
		}
	}()
	if store != nil {
		if err := store(a); err != nil {
			return fmt.Errorf("the decision couldn't be stored, and so isn't made: %w", err)
		}
	}
	stored = true
	return s.settle(e, a)
}

// claim keeps others from deciding about an approval, until release or settle. It returns the approval as it's decided.
func (s *Set) claim(id, decision string, by message.By) (*entry, *message.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		e := s.find(id)
		if e == nil {
			return nil, nil, ErrUnknown
		}
		switch {
		case e.state == cancelled:
			return nil, nil, ErrCancelled
		case e.state == expired:
			return nil, nil, ErrUnknown
		case e.state == decided:
			return nil, nil, &DecidedError{*e.Decision}
		case !slices.Contains(e.Offers, decision):
			return nil, nil, &NotOfferedError{decision, e.Offers}
		case e.storing == nil:
			e.storing = make(chan struct{})
			a := e.copy()
			a.Decision, a.Resolved, a.ResolvedBy = &decision, s.clock.Now().UnixMilli(), &by
			return e, a, nil
		}
		other := e.storing
		s.mu.Unlock()
		<-other
		s.mu.Lock()
	}
}

// release lets others decide again.
func (s *Set) release(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(e.storing)
	e.storing = nil
	if e.late && e.state == pending {
		s.end(e, expired)
	}
}

// settle makes a decision that is stored.
func (s *Set) settle(e *entry, a *message.Approval) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(e.storing)
	e.storing = nil
	if e.state != pending {
		return ErrCancelled
	}
	e.Approval = *a
	s.end(e, decided)
	return nil
}

// Cancel withdraws a request. Those who wait for its decision get none. The error is ErrUnknown, or a *DecidedError if it's too late.
func (s *Set) Cancel(c Client, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.visible(c, id)
	switch {
	case e == nil || e.state == expired:
		return ErrUnknown
	case e.state == decided:
		return &DecidedError{*e.Decision}
	case e.state == pending:
		s.end(e, cancelled)
	}
	return nil
}
