package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Changes are the functions to call for each new approval and for the end of each: decided, expired, or gone, which is no longer listed.
// An error of theirs ends the watching.
type Changes struct {
	Asked func(a *message.Approval) error
	Ended func(a *message.Approval, gone bool) error

	known  map[key]message.Approval // pending ones
	failed error
}

// key is what names an approval: an id is its requester's choice.
type key struct{ session, id string }

// Watch follows a source until ctx is done.
func (c *Changes) Watch(ctx context.Context, s Source) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.known = map[key]message.Approval{}
	err := s.Watch(ctx, func(list []message.Approval) {
		if c.failed == nil {
			c.failed = c.update(list, time.Now())
		}
		if c.failed != nil {
			cancel()
		}
	})
	if c.failed != nil {
		return c.failed
	}
	return err
}

func (c *Changes) update(list []message.Approval, now time.Time) error {
	listed := map[key]bool{}
	for _, a := range list {
		k := key{a.Session, a.ID}
		listed[k] = true
		_, known := c.known[k]
		switch {
		case Pending(&a, now) && !known:
			c.known[k] = a
			if err := c.Asked(&a); err != nil {
				return err
			}
		case !Pending(&a, now) && known:
			delete(c.known, k)
			if err := c.Ended(&a, false); err != nil {
				return err
			}
		}
	}
	for k, a := range c.known {
		if !listed[k] {
			delete(c.known, k)
			if err := c.Ended(&a, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckDecision returns an error for a decision that isn't possible about an approval.
func CheckDecision(a *message.Approval, d *message.Decided) error {
	switch {
	case !slices.Contains(a.Offers, *d.Decision):
		return fmt.Errorf("%s isn't possible for approval %s: it offers %s", *d.Decision, Quote(a.ID), Escape(strings.Join(a.Offers, ", ")))
	case d.For != 0 && a.Tool != "":
		return fmt.Errorf("approval %s is about a call of a tool, and a time is possible for grants alone", Quote(a.ID))
	}
	return nil
}
