package calls

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// live takes a call through its steps, until it's denied or may run.
func (s *Service) live(ctx context.Context, l *call) {
	defer s.lives.Done()
	for {
		s.mu.Lock()
		life := *l.life // its pointers lead to what never changes
		s.mu.Unlock()
		if life.Step >= tool.Running {
			s.decided(l)
			return
		}
		report := s.step(ctx, l, &life)
		s.change(l, func() {
			if ctx.Err() != nil { // it was cancelled, or the session has ended
				l.life.End()
				return
			}
			report(l.life)
			s.keep(l)
		})
	}
}

// step takes one step of a call, and returns what reports its result.
func (s *Service) step(ctx context.Context, l *call, life *tool.Life) func(*tool.Life) {
	var a *gate.Answer
	var err error
	var report func(*tool.Life)
	switch c := life.Call; life.Step {
	case tool.Judge:
		a, err = s.locked(c, s.Engine.Judge)
		report = func(l *tool.Life) { l.Judged(a) }
	case tool.Hooks:
		r := s.Hooks.Before(ctx, c, life.Answer.Risk, func(arguments json.RawMessage) error { return s.recheck(c, arguments) })
		report = func(l *tool.Life) { l.Hooked(r) }
	case tool.Constraints:
		if life.Asks() { // else they are checked when the call is counted
			a, err = s.locked(c, s.Engine.Permits)
		}
		report = func(l *tool.Life) { l.Permitted(a) }
	case tool.Approval:
		report = s.approve(ctx, l, life)
	case tool.Start:
		a, err = s.locked(c, s.Engine.Count)
		report = func(l *tool.Life) { l.Counted(a) }
	}
	if err != nil {
		return func(l *tool.Life) { l.Failed(err) }
	}
	return report
}

// decided ends the life of a call that doesn't run, and records what was decided.
func (s *Service) decided(l *call) {
	denied := false
	s.change(l, func() {
		l.decided, l.approval = time.Now(), ""
		if denied = l.life.Step == tool.Denied; denied {
			s.release(l)
		}
	})
	if denied {
		s.Record.Denied(l.life.Call, l.life.Answer)
		s.mu.Lock()
		defer s.mu.Unlock()
		l.life.Call = &gate.Call{ID: l.life.Call.ID} // it's known for a while, and may be large
	}
}

// locked calls the engine.
func (s *Service) locked(c *gate.Call, do func(*gate.Call) (*gate.Answer, error)) (*gate.Answer, error) {
	s.judging.Lock()
	defer s.judging.Unlock()
	return do(c)
}

// recheck judges a call with other arguments.
func (s *Service) recheck(c *gate.Call, arguments json.RawMessage) error {
	s.judging.Lock()
	defer s.judging.Unlock()
	return s.Engine.Recheck(c, arguments)
}

// keep bounds the memory of arguments that hooks have changed: the oldest are lost first, and their calls denied. s.mu is locked.
func (s *Service) keep(l *call) {
	if !l.life.Rewritten || l.life.Step >= tool.Running {
		return
	}
	s.release(l)
	l.size = size(l.life.Call)
	kept := &s.kept[side(l.confined)]
	*kept += l.size
	s.order = append(s.order, l)
	for {
		first := slices.IndexFunc(s.order, func(o *call) bool { return o.confined == l.confined })
		if len(s.order) <= maxRewrites && *kept <= maxKept || first < 0 {
			return
		}
		old := s.order[first]
		s.release(old)
		ran := old.life.Step == tool.Running
		old.life.Lost()
		old.cancel()
		if ran {
			old.decided = time.Now() // it's known for a while longer
			s.Record.Denied(old.life.Call, old.life.Answer)
		}
	}
}
