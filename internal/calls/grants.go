package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/grant"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/callstate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Grants adds rules to the policy of the session that its processes ask for and a person gives.
type Grants struct {
	Home    string
	System  fspath.FileSystem
	Timeout time.Duration // how long a person is asked

	// Load compiles the session's policy with the text of one more file of the same author.
	Load func(granted []byte) (*policy.Compiled, error)
	// Reload puts the running session under a policy, unless another process has (api.ErrReplaced); nil: that's impossible, and WhyNot is the reason.
	Reload func(*policy.Compiled) error
	WhyNot string
	// Apply makes the text of that file a part of what the session's calls are judged by.
	Apply func(granted []byte)
	// Keep stores a rule for the next starts of the session's command under the same policy, or for the next one alone.
	Keep func(callstate.Stored) error
	// Failed reports that a grant couldn't be withdrawn when its time was up.
	Failed func(error)

	Given []string             // the rules in force
	Until map[string]time.Time // when the time of those with which the session begins is up
	Bare  *policy.Compiled     // without given rules

	mu       sync.Mutex  // locked before judging
	judging  *sync.Mutex // of Load and Apply, which use what calls are judged by
	ended    bool
	settling bool // settle runs
}

// proposal is a grant that a person is asked for.
type proposal struct {
	rule     string // as TOML
	resource policy.Resource
}

func (g *Grants) text() []byte { return GrantedText(g.Given) }

// propose returns the smallest rule that would allow something; nil if the session's policy allows it already.
func (g *Grants) propose(m *message.Grant) (*proposal, error) {
	q, err := explain.ParseQuestion(m.Resource, m.Action)
	if err != nil {
		return nil, http1.Reject(400, "%v", err)
	}
	if q.Target, q.Argv = m.Target, m.Argv; q.Resource == policy.Commands && len(m.Argv) > 0 {
		q.Target = m.Argv[0]
	}
	if q.Target == "" {
		return nil, http1.Reject(400, "the request has no target")
	}
	if err := q.NormalizeTarget(g.Home); err != nil {
		return nil, http1.Reject(400, "%v", err)
	}
	g.mu.Lock()
	p := &grant.Policy{Text: g.text(), System: g.System, Load: g.Load}
	g.mu.Unlock()
	g.judging.Lock()
	after, err := p.AddFor(q)
	g.judging.Unlock()
	if rejection := (*grant.Rejection)(nil); errors.As(err, &rejection) {
		return nil, http1.Reject(403, "no grant can be asked for: %s", rejection.Reason)
	}
	if err != nil {
		return nil, err
	}
	rule := added(p.Text, after)
	if rule == "" {
		return nil, nil
	}
	return &proposal{rule, q.Resource}, nil
}

// give puts a grant in force: in the running session, for a time (0: as long as it runs), or at the next start. effect says which.
func (g *Grants) give(p *proposal, decision string, lasts int64, by message.By) (effect string, err error) {
	if err := checkTime(lasts); err != nil {
		return "", err
	}
	lasting := time.Duration(lasts) * time.Millisecond
	if decision == message.AllowAlways {
		if err := g.keep(p, false, lasting, by); err != nil {
			return "", err
		}
	}
	why := g.WhyNot
	switch {
	case g.Reload == nil:
	case p.resource == policy.Env:
		why = "the environment of running processes doesn't change"
	default:
		if err := g.add(p.rule); err != nil {
			why = err.Error()
			break
		}
		if lasts > 0 {
			time.AfterFunc(lasting, func() { g.withdraw(p.rule) })
		}
		return "now", nil
	}
	if decision == message.AllowOnce {
		if err := g.keep(p, true, lasting, by); err != nil {
			return "", err
		}
	}
	return "next start: " + why, nil
}

func checkTime(lasts int64) error {
	if lasts < 0 || lasts > (365*24*time.Hour).Milliseconds() {
		return http1.Reject(400, "a grant lasts between a millisecond and a year")
	}
	return nil
}

func (g *Grants) keep(p *proposal, once bool, lasting time.Duration, by message.By) error {
	now := time.Now()
	rule := callstate.Stored{Rule: p.rule, Created: now.UnixMilli(), By: by, Once: once}
	if lasting > 0 {
		rule.Expires = now.Add(lasting).UnixMilli()
	}
	if err := g.Keep(rule); err != nil {
		return fmt.Errorf("the grant can't be stored: %w", err)
	}
	return nil
}

// add puts a rule in force, or leaves all as it was.
func (g *Grants) add(rule string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return errEnded
	}
	before := g.Given
	g.Given = append(before[:len(before):len(before)], rule)
	err := g.reload()
	if err == nil {
		g.apply()
		return nil
	}
	g.Given = before
	if !g.settling { // the error may be that of the answer, and the rule be in force
		g.settling = true
		go g.settle()
	}
	return err
}

var errEnded = errors.New("the session has ended")

// reload puts the session under its policy with the given rules. g.mu is locked.
func (g *Grants) reload() error {
	g.judging.Lock()
	c, err := g.Load(g.text())
	g.judging.Unlock()
	if err == nil {
		err = g.Reload(c)
	}
	return err
}

// apply makes calls be judged with the given rules. g.mu is locked.
func (g *Grants) apply() {
	g.judging.Lock()
	defer g.judging.Unlock()
	g.Apply(g.text())
}

// withdraw takes a rule away when its time is up: at once from what calls are judged by, and from the session as soon as that's possible.
func (g *Grants) withdraw(rule string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.Given, rule)
	if i < 0 || g.ended {
		return
	}
	g.Given = slices.Delete(slices.Clone(g.Given), i, i+1)
	g.apply()
	if !g.settling {
		g.settling = true
		go g.settle()
	}
}

func (g *Grants) failed(err error) {
	if g.Failed != nil {
		g.Failed(err)
	}
}

// The pauses between attempts to put a session under its policy.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// settle puts the session under its policy with the given rules, however often that must be tried: a grant that isn't given any more must not stay
// in force.
func (g *Grants) settle() {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		g.mu.Lock()
		var err error
		if !g.ended {
			err = g.restore()
		}
		if done := err == nil || errors.Is(err, api.ErrReplaced); done {
			g.settling = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		if pause == firstPause {
			g.failed(fmt.Errorf("the session's policy can't be changed, so a grant that has ended may still be in force; this is tried again: %w", err))
		}
		time.Sleep(pause)
	}
}

// restore puts the session under its policy with the given rules, or, if that can't be compiled because of what the session has done to its files,
// without any. g.mu is locked.
func (g *Grants) restore() error {
	g.judging.Lock()
	c, err := g.Load(g.text())
	g.judging.Unlock()
	if err != nil {
		c, g.Given = g.Bare, nil
		g.apply()
		g.failed(fmt.Errorf("the time of a grant is up, and all other grants are withdrawn with it, as the policy doesn't load: %w", err))
	}
	return g.Reload(c)
}

// begin has the rules with which the session begins withdrawn when their time is up. judging is locked while calls are judged.
func (g *Grants) begin(judging *sync.Mutex) {
	g.judging = judging
	for rule, at := range g.Until {
		if g.Reload != nil {
			time.AfterFunc(time.Until(at), func() { g.withdraw(rule) })
		}
	}
}

// end ends all changes: the session has ended.
func (g *Grants) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// Request asks a person for a grant. The answer is the approval; nil if the policy allows it already.
func (s *Service) Request(_ context.Context, m *message.Grant, confined bool) (*message.Approval, error) {
	g := s.Grants
	if g == nil {
		return nil, http1.Reject(404, "nobody can be asked: the session's policy has no [approvals]")
	}
	if len(m.Why) > maxShown || len(m.Target) > maxShown {
		return nil, http1.Reject(413, "a reason or a target has at most %d bytes", maxShown)
	}
	if err := checkTime(m.For); err != nil {
		return nil, err
	}
	p, err := g.propose(m)
	if err != nil || p == nil {
		return nil, err
	}
	a := &message.Approval{
		ID: m.ID, Session: s.Session, Agent: s.Agent, Argv: m.Argv, Reason: m.Why, Risk: risk(p.resource), Rule: p.rule,
		Offers: []string{message.AllowOnce, message.AllowAlways, message.Deny},
	}
	a, err = s.Approvals.Ask(s.client(confined), a, g.Timeout)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.asked[a.ID] == nil && a.Resolved == 0 && s.ctx.Err() == nil {
		s.forgetAsked()
		s.asked[a.ID] = &asked{grant: p, about: m}
		s.lives.Add(1)
		go s.expire(a, m)
	}
	s.mu.Unlock()
	s.Record.Requested(m, a)
	return a, nil
}

// forgetAsked forgets grants that nobody asks about any more. s.mu is locked.
func (s *Service) forgetAsked() {
	for id, of := range s.asked {
		if of.grant == nil {
			continue
		}
		if _, err := s.Approvals.Get(s.client(false), id); err != nil {
			delete(s.asked, id)
		}
	}
}

// expire records a request that nobody answers in time, or before the session ends.
func (s *Service) expire(a *message.Approval, m *message.Grant) {
	defer s.lives.Done()
	switch d, err := s.Approvals.Wait(s.client(false), a.ID, s.ctx.Done()); {
	case errors.Is(err, approval.ErrPending):
		s.Record.GrantUnanswered(m, a, event.Withdrawn)
	case err == nil && d == nil:
		s.Record.GrantUnanswered(m, a, event.Expired)
	}
}

// risk is the risk of a grant: what executes or connects is like a tool of that kind.
func risk(r policy.Resource) string {
	switch r {
	case policy.Net, policy.Commands:
		return "high"
	}
	return "medium"
}
