package calls

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/callstate"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// The bounds of a session's calls.
const (
	maxOpen     = 256 // of the confined clients, and of the others
	maxRewrites = 1024
	maxKept     = 64 << 20         // bytes of the arguments of open calls, of each of the two
	grace       = 15 * time.Second // how long a denied call is known
)

// Service answers the requests about one session's calls. It is safe for concurrent use.
type Service struct {
	Config

	judging sync.Mutex // the engine isn't safe for concurrent use

	mu    sync.Mutex
	open  map[string]*call // by the id; calls that were denied lately, too
	order []*call          // those with changed arguments, the oldest first
	kept  [2]int           // bytes of the arguments of unconfined and confined clients
	asked map[string]*asked

	ctx   context.Context
	end   context.CancelFunc
	lives sync.WaitGroup
}

// Config is what a Service works with.
type Config struct {
	Session   string
	Agent     string // of the session; "": none
	Engine    *tool.Engine
	Approvals *approval.Set
	Hooks     Hooks
	Stored    *callstate.Approvals // the calls that were allowed once and for all
	Bind      *Binder
	Grants    *Grants // nil: no grants can be asked for
	Record    *Recorder
}

// Hooks runs the policy's hooks.
type Hooks interface {
	// Before runs those before a call. A hook sees only arguments that recheck allows.
	Before(ctx context.Context, c *gate.Call, risk string, recheck func(json.RawMessage) error) tool.HookResult
	// After starts those after a call, and doesn't wait for them.
	After(c *gate.Call, risk string, end *message.End)
	// Close waits for the hooks that still run.
	Close()
}

// call is a call that hasn't ended. s.mu protects it.
type call struct {
	life      *tool.Life
	submitted string // a digest of the call as it was submitted
	confined  bool   // by a confined process
	cancel    context.CancelFunc
	changed   chan struct{} // closed and replaced at each change of what clients see
	approval  string        // the id, while a person is asked
	size      int           // bytes of its texts
	decided   time.Time     // when it was denied, or allowed to run; zero: it wasn't
}

// New returns a service.
func New(c Config) *Service {
	s := &Service{Config: c, open: map[string]*call{}, asked: map[string]*asked{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	if s.Grants != nil {
		s.Grants.begin(&s.judging)
	}
	return s
}

// Close ends the calls that wait, and waits for the hooks that still run.
func (s *Service) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.lives.Wait()
	if s.Grants != nil {
		s.Grants.end()
	}
	s.Hooks.Close()
}

// Submit takes a call through its life, until it's denied, waits for a person, or may run. It then waits for a person's decision for a
// while. A call that was submitted already isn't taken twice.
func (s *Service) Submit(ctx context.Context, c *gate.Call, digest string, confined bool, most time.Duration) (*message.State, error) {
	l, err := s.begin(c, digest, confined)
	if err != nil {
		return nil, err
	}
	return s.wait(ctx, l, most)
}

// begin finds a call, or begins its life.
func (s *Service) begin(c *gate.Call, digest string, confined bool) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(time.Now())
	if l := s.open[c.ID]; l != nil {
		switch {
		case l.submitted == digest && l.confined == confined:
			return l, nil
		case l.life.Step != tool.Denied || l.confined != confined:
			return nil, http1.Reject(409, "the id %q is that of another call, which hasn't ended", c.ID)
		}
		s.forget(l)
	}
	switch n := s.running(confined); {
	case s.ctx.Err() != nil:
		return nil, http1.Reject(503, "the session has ended")
	case n >= maxOpen:
		return nil, http1.Reject(429, "%s have %d open calls, the most that they may have: report the results of some", clients(confined), maxOpen)
	case s.kept[side(confined)]+size(c) > maxKept:
		return nil, http1.Reject(429, "the arguments of the open calls of %s have the most bytes that they may have: report the results of some", clients(confined))
	}
	ctx, cancel := context.WithCancel(s.ctx)
	l := &call{life: tool.NewLife(c), submitted: digest, confined: confined, cancel: cancel, changed: make(chan struct{}), size: size(c)}
	s.open[c.ID] = l
	s.kept[side(confined)] += l.size
	s.lives.Add(1)
	go s.live(ctx, l)
	return l, nil
}

// size is how many bytes the texts of a call have.
func size(c *gate.Call) (n int) {
	for _, text := range []string{c.ID, c.Tool, c.Agent, c.Provider, c.Model, c.Group, c.Session, c.Invocation, c.Cwd, c.Traceparent, c.ToolUseID} {
		n += len(text)
	}
	return n + len(c.Arguments)
}

// side is the index of the limits of a client: confined ones, which may be hostile, have limits of their own.
func side(confined bool) int {
	if confined {
		return 1
	}
	return 0
}

func clients(confined bool) string {
	return [2]string{"the processes outside the session", "the session's processes"}[side(confined)]
}

// running counts the open calls of a side without those that were denied. s.mu is locked.
func (s *Service) running(confined bool) (n int) {
	for _, l := range s.open {
		if l.confined == confined && l.life.Step != tool.Denied {
			n++
		}
	}
	return n
}

// sweep forgets the calls that were denied a while ago, and all of them if there are many. s.mu is locked.
func (s *Service) sweep(now time.Time) {
	most := grace
	if len(s.open) > 4*maxOpen {
		most = 0
	}
	for _, l := range s.open {
		if l.life.Step == tool.Denied && !l.decided.IsZero() && now.Sub(l.decided) > most {
			s.forget(l)
		}
	}
}

// forget removes a call. s.mu is locked.
func (s *Service) forget(l *call) {
	l.cancel()
	delete(s.open, l.life.Call.ID)
	s.release(l)
}

// release frees the arguments of a call. s.mu is locked.
func (s *Service) release(l *call) {
	s.kept[side(l.confined)] -= l.size
	l.size = 0
	s.order = slices.DeleteFunc(s.order, func(o *call) bool { return o == l })
}

// State returns a call's state, as soon as it's decided or the time is up.
func (s *Service) State(ctx context.Context, id string, confined bool, most time.Duration) (*message.State, error) {
	s.mu.Lock()
	s.sweep(time.Now())
	l, err := s.find(id, confined)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.wait(ctx, l, most)
}

// find returns an open call. Confined clients have no access to the calls of others: they could report results that a constraint waits for.
// s.mu is locked.
func (s *Service) find(id string, confined bool) (*call, error) {
	if l := s.open[id]; l != nil && (l.confined || !confined) {
		return l, nil
	}
	return nil, http1.Reject(404, "there is no open call %q", id)
}

// wait waits until a call is decided; while a person is asked, for so long.
func (s *Service) wait(ctx context.Context, l *call, most time.Duration) (*message.State, error) {
	var late <-chan time.Time
	for {
		s.mu.Lock()
		st, waits, changed, decided := l.state(), l.approval != "", l.changed, !l.decided.IsZero()
		s.mu.Unlock()
		if decided || waits && most <= 0 {
			return st, nil
		}
		if waits && late == nil {
			t := time.NewTimer(most)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-changed:
		case <-late:
			return st, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// state is what clients see of a call. s.mu is locked.
func (l *call) state() *message.State {
	out := &message.State{Call: l.life.Call.ID, Arguments: l.life.Call.Arguments, State: message.Waiting}
	switch l.life.Step {
	case tool.Denied, tool.Ended:
		out.State, out.Arguments = message.Denied, nil
	case tool.Running:
		out.State = message.Running
	}
	if l.life.Answer != nil {
		out.Answer = l.life.Answer.JSON()
	}
	if l.approval != "" {
		id := l.approval
		out.Approval = &id
	}
	return out
}

// change changes a call, and wakes those who wait for it.
func (s *Service) change(l *call, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(l.changed)
	l.changed = make(chan struct{})
}

// End records how a call has ended, and starts the hooks after it.
func (s *Service) End(id string, confined bool, end *message.End) error {
	s.mu.Lock()
	l, err := s.find(id, confined)
	switch {
	case err != nil:
		s.mu.Unlock()
		return err
	case l.life.Step != tool.Running:
		s.mu.Unlock()
		return http1.Reject(409, "call %q doesn't run: it's %s", id, l.state().State)
	}
	l.life.End()
	s.forget(l)
	s.mu.Unlock()
	s.after(l.life, map[bool]string{true: event.OK, false: event.Failed}[end.Error == nil], end)
	return nil
}

// after does what follows the end of a call that ran.
func (s *Service) after(life *tool.Life, how string, end *message.End) {
	if s.Engine.Store != nil {
		if err := s.Engine.End(&gate.End{ID: life.Call.ID, Invocation: life.Call.Invocation, OK: how == event.OK}); err != nil {
			s.Record.Failed(life.Call, err)
		}
	}
	s.Record.Ran(life, how, end)
	s.Hooks.After(life.Call, life.Answer.Risk, end)
}

// Cancel ends a call: its wait for an approval, or its run. A call that is cancelled while it runs counts, and has ended with an error.
func (s *Service) Cancel(id string, confined bool) error {
	s.mu.Lock()
	l, err := s.find(id, confined)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	ran := l.life.Step == tool.Running
	s.forget(l)
	s.mu.Unlock()
	s.change(l, func() {
		l.life.End()
		l.decided = time.Now()
	})
	if ran {
		s.after(l.life, event.Cancelled, &message.End{Error: json.RawMessage(`"cancelled"`)})
	}
	return nil
}
