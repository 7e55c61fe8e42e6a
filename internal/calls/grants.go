package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	// Reload puts the running session under a policy; nil: that's impossible, and WhyNot is the reason.
	Reload func(*policy.Compiled) error
	WhyNot string
	// Keep stores a rule for the next starts of the session's command under the same policy, or for the next one alone.
	Keep func(callstate.Stored) error
	// Failed reports that a grant couldn't be withdrawn when its time was up.
	Failed func(error)

	Given []string             // the rules in force
	Until map[string]time.Time // when the time of those with which the session begins is up
	Bare  *policy.Compiled     // without given rules

	mu    sync.Mutex
	ended bool
}

// retry is the time until the next attempt to withdraw a grant, at first.
const retry = time.Second

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
		return nil, reject(400, "%v", err)
	}
	if q.Target, q.Argv = m.Target, m.Argv; q.Resource == policy.Commands && len(m.Argv) > 0 {
		q.Target = m.Argv[0]
	}
	if q.Target == "" {
		return nil, reject(400, "the request has no target")
	}
	if err := q.NormalizeTarget(g.Home); err != nil {
		return nil, reject(400, "%v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &grant.Policy{Text: g.text(), System: g.System, Load: g.Load}
	after, err := p.AddFor(q)
	if rejection := (*grant.Rejection)(nil); errors.As(err, &rejection) {
		return nil, reject(403, "no grant can be asked for: %s", rejection.Reason)
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
		if err := g.change(func() { g.Given = append(g.Given, p.rule) }); err != nil {
			why = err.Error()
			break
		}
		if lasts > 0 {
			time.AfterFunc(lasting, func() { g.withdraw(p.rule, retry) })
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
		return reject(400, "a grant lasts between a millisecond and a year")
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

// change changes the given rules and reloads the session's policy, or leaves all as it was.
func (g *Grants) change(do func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return errEnded
	}
	before := g.Given
	do()
	c, err := g.Load(g.text())
	if err == nil {
		err = g.Reload(c)
	}
	if err != nil {
		g.Given = before
	}
	return err
}

// withdraw takes a rule away when its time is up. If the policy without it doesn't load, the session gets the one without any: what a session does to the
// files that it can write mustn't keep a grant in force. It tries until it succeeds, since toolguardd may be restarting.
func (g *Grants) withdraw(rule string, pause time.Duration) {
	err := g.change(func() {
		if i := slices.Index(g.Given, rule); i >= 0 {
			g.Given = slices.Delete(slices.Clone(g.Given), i, i+1)
		}
	})
	if err == nil {
		return
	}
	back := g.goBack()
	switch {
	case errors.Is(back, errEnded):
	case back == nil:
		g.failed(fmt.Errorf("the time of a grant is up, and all other grants have been withdrawn with it, as the policy doesn't load: %w", err))
	default:
		g.failed(fmt.Errorf("a grant whose time is up is still in force, which is tried again: %w", back))
		time.AfterFunc(pause, func() { g.withdraw(rule, min(2*pause, time.Minute)) })
	}
}

var errEnded = errors.New("the session has ended")

// goBack puts the session under the policy without given rules.
func (g *Grants) goBack() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return errEnded
	}
	if err := g.Reload(g.Bare); err != nil {
		return err
	}
	g.Given = nil
	return nil
}

func (g *Grants) failed(err error) {
	if g.Failed != nil {
		g.Failed(err)
	}
}

// begin has the rules with which the session begins withdrawn when their time is up.
func (g *Grants) begin() {
	for rule, at := range g.Until {
		if g.Reload != nil {
			time.AfterFunc(time.Until(at), func() { g.withdraw(rule, retry) })
		}
	}
}

// end ends the changes of the session's policy.
func (g *Grants) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// Request asks a person for a grant. The answer is the approval; nil if the policy allows it already.
func (s *Service) Request(_ context.Context, m *message.Grant, confined bool) (*message.Approval, error) {
	g := s.Grants
	if g == nil {
		return nil, reject(404, "nobody can be asked: the session's policy has no [approvals]")
	}
	if len(m.Why) > maxShown || len(m.Target) > maxShown {
		return nil, reject(413, "a reason or a target has at most %d bytes", maxShown)
	}
	if err := checkTime(m.For); err != nil {
		return nil, err
	}
	s.judging.Lock() // Load reads the same snapshot of the policy's files
	p, err := g.propose(m)
	s.judging.Unlock()
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
