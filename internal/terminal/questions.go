package terminal

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// questions are the approvals that wait for the person, and the prompt.
type questions struct {
	source atomic.Pointer[ask.Source]
	list   []message.Approval // pending, the oldest first
	left   map[string]bool    // for later
	seen   map[string]bool
	prompt *prompt // nil: none stands
	keyAt  time.Time
}

// decision is how a decision by the prompt ended.
type decision struct {
	id     string
	effect string // of a grant
	err    error
}

// update takes a new list.
func (r *relay) update(list []message.Approval, now time.Time) {
	r.list = r.list[:0:0]
	present := map[string]bool{}
	for _, a := range list {
		present[a.ID] = true
		if r.prompt != nil && a.ID == r.prompt.approval.ID && !r.prompt.deciding {
			switch {
			case a.Created != r.prompt.approval.Created:
				r.closePrompt("withdrawn, and requested again") // for the same thing: an id isn't used for another one
			case !ask.Pending(&a, now):
				r.closePrompt(ask.Outcome(&a, false, now))
			}
		}
		if !ask.Pending(&a, now) {
			continue
		}
		r.list = append(r.list, a)
		if !r.seen[a.ID] && r.config.Appeared != nil {
			r.config.Appeared(&a)
		}
		r.seen[a.ID] = true
	}
	for _, known := range []map[string]bool{r.seen, r.left} { // so that they don't grow
		for id := range known {
			if !present[id] {
				delete(known, id)
			}
		}
	}
	if r.prompt != nil && !r.prompt.deciding && !present[r.prompt.approval.ID] {
		r.closePrompt(ask.Outcome(&r.prompt.approval, true, now))
	}
	r.nextPrompt()
}

// expire closes a prompt whose time is over.
func (r *relay) expire(now time.Time) {
	if r.prompt != nil && !r.prompt.deciding && !ask.Pending(&r.prompt.approval, now) {
		r.closePrompt(ask.Outcome(&r.prompt.approval, true, now))
		r.nextPrompt()
	}
}

// waiting are the approvals to ask about now.
func (r *relay) waiting() (list []*message.Approval) {
	now := time.Now()
	for i := range r.list {
		if a := &r.list[i]; !r.left[a.ID] && ask.Pending(a, now) {
			list = append(list, a)
		}
	}
	return list
}

// nextPrompt shows a prompt if one is due and none stands.
func (r *relay) nextPrompt() {
	if r.prompt != nil {
		r.draw()
		return
	}
	list := r.waiting()
	if len(list) == 0 || r.background || r.ended {
		return
	}
	for more := true; more; { // what was typed before the prompt is the command's
		select {
		case p := <-r.typed:
			r.receive(p)
		default:
			more = false
		}
	}
	r.device.discardInput()
	r.show(r.modes.begin())
	r.prompt = &prompt{approval: *list[0], keys: newKeys(time.Now())}
	r.draw()
}

// draw draws the prompt over itself.
func (r *relay) draw() {
	list, ws := r.waiting(), r.device.size()
	number := 1
	for i, a := range list {
		if a.ID == r.prompt.approval.ID {
			number = i + 1
		}
	}
	r.show(r.prompt.frame(int(ws.Col), int(ws.Row), number, len(list), time.Now()))
}

// hidePrompt removes the prompt and shows what the command wrote meanwhile. Keys that were typed at it don't reach the command.
func (r *relay) hidePrompt() {
	if r.prompt == nil {
		return
	}
	r.prompt, r.keyAt = nil, time.Time{}
	r.device.discardInput()
	r.show(r.modes.end())
	alternate := r.modes.alternate()
	if len(r.withheld) > 0 {
		r.modes.write(r.withheld)
		r.screen = append(r.screen, r.withheld)
		r.withheld = nil
	}
	if alternate {
		r.redrawCommand()
	}
}

// closePrompt hides the prompt, with a line about its end unless that is "".
func (r *relay) closePrompt(why string) {
	if r.prompt == nil {
		return
	}
	id, withheld := r.prompt.approval.ID, r.withheld
	r.withheld = nil
	r.hidePrompt()
	if why != "" {
		r.note("approval %s: %s", ask.Quote(id), why)
	}
	if len(withheld) > 0 {
		r.modes.write(withheld)
		r.screen = append(r.screen, withheld)
	}
}

// typedAtPrompt takes input while a prompt stands. None of it reaches the command.
func (r *relay) typedAtPrompt(input []byte, now time.Time) {
	p := r.prompt
	view, early := p.keys.feed(input, now)
	if early {
		p.hint = "too soon after other input: press the key again"
		r.draw()
	}
	if view != 0 {
		p.page++
		r.draw()
	}
	r.settleKey(now)
}

// settleKey acts on a key that no other input followed.
func (r *relay) settleKey(now time.Time) {
	p := r.prompt
	if p == nil {
		return
	}
	key, wait := p.keys.decide(now)
	if wait > 0 {
		r.keyAt = now.Add(wait)
	}
	if key == 0 {
		return
	}
	switch p.press(key) {
	case redraw:
		r.draw()
	case allowOnce:
		r.decide(message.AllowOnce)
	case allowAlways:
		r.decide(message.AllowAlways)
	case deny:
		r.decide(message.Deny)
	case later:
		r.left[p.approval.ID] = true
		r.closePrompt("left open: 'toolguard approvals list' shows it")
		r.nextPrompt()
	case allLater:
		for _, a := range r.waiting() {
			r.left[a.ID] = true
		}
		r.closePrompt("left open, with all others: 'toolguard approvals list' shows them")
	case nothing:
	}
}

// decide sends a decision. The prompt stands until it's answered.
func (r *relay) decide(what string) {
	id := r.prompt.approval.ID
	r.prompt.deciding = true
	r.draw()
	source := r.source.Load()
	go func() {
		made, err := (*source).Decide(context.Background(), id, message.Decided{Decision: &what, Via: "terminal"})
		r.decided <- decision{id, made.Effect, err}
	}()
}

// decision takes the answer to a decision.
func (r *relay) decision(d decision) {
	if r.prompt == nil || r.prompt.approval.ID != d.id {
		return // the inner process has ended meanwhile
	}
	var made *ask.DecidedError
	switch {
	case d.err == nil && d.effect != "" && d.effect != "now":
		r.left[d.id] = true // the next list may not have it yet
		r.closePrompt("given, and in force at the " + ask.Escape(d.effect))
	case d.err == nil:
		r.left[d.id] = true
		r.closePrompt("")
	case errors.Is(d.err, ask.ErrGone), errors.As(d.err, &made):
		r.left[d.id] = true
		r.closePrompt(ask.Escape(d.err.Error()))
	default:
		r.left[d.id] = true
		r.closePrompt("not decided: " + ask.Escape(d.err.Error()) + "; 'toolguard approvals list' shows it")
	}
	r.nextPrompt()
}
