package calls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/callstate"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// maxShown is how many bytes of a call's arguments a person sees. An approval is bound to all of them.
const maxShown = 8 << 10

var errCancelled = errors.New("the call was cancelled")

// asked is what the decision about an approval needs.
type asked struct {
	call   *gate.Call // nil for a grant
	key    string     // of the rule that allow-always stores
	grant  *proposal
	about  *message.Grant
	effect string // of a grant that was given
}

// approve has a person decide about a call, or what was stored, or the policy if nobody answers.
func (s *Service) approve(ctx context.Context, l *call, life *tool.Life) func(*tool.Life) {
	rejected := func(format string, args ...any) func(*tool.Life) {
		return func(l *tool.Life) { l.Rejected(fmt.Sprintf(format, args...)) }
	}
	c := life.Call
	settings, table := s.policyOf(c)
	if !table.Given {
		return rejected("the call needs an approval, and the policy has no [approvals], so nobody is asked: %s", life.Answer.Message)
	}
	b, err := s.Bind.bind(c, settings)
	if err != nil {
		return func(l *tool.Life) { l.Failed(fmt.Errorf("find out what an approval would be bound to: %w", err)) }
	}
	a, key := s.approval(life, b, table, settings)
	if slices.Contains(a.Offers, message.AllowAlways) {
		found, err := s.Stored.Use(key)
		if err != nil {
			return func(l *tool.Life) { l.Failed(err) }
		}
		if found != nil {
			return func(l *tool.Life) { l.Approved(true) }
		}
	}
	decision, by, err := s.ask(ctx, l, life, a, key, table)
	switch {
	case err != nil:
		return func(l *tool.Life) { l.Failed(err) }
	case decision == nil:
		fallback, _ := table.Fallback(life.Answer.Listed)
		if fallback == toolset.Run && !life.ByHook() {
			return func(l *tool.Life) { l.Approved(false) }
		}
		return func(l *tool.Life) { l.Unanswered(fmt.Sprintf("nobody answered within %s", table.Timeout)) }
	case *decision == message.Deny:
		return rejected("a person denied it (%s)", who(by))
	}
	if err := b.check(); err != nil {
		return rejected("it was approved, and then %v", err)
	}
	return func(l *tool.Life) { l.Approved(true) }
}

// policyOf returns the settings of a call's tool and of approvals.
func (s *Service) policyOf(c *gate.Call) (*toolset.Settings, *toolset.Approvals) {
	s.judging.Lock()
	defer s.judging.Unlock()
	return s.Engine.Settings(c), s.Engine.Set.Approvals(c.Agent)
}

// approval describes a call for a person, and returns the key of the rule that would allow it once and for all.
func (s *Service) approval(life *tool.Life, b *Bound, table *toolset.Approvals, settings *toolset.Settings) (*message.Approval, string) {
	c, answer := life.Call, life.Answer
	a := &message.Approval{
		Agent: c.Agent, Session: s.Session, Tool: c.Tool, Argv: b.Argv, Cwd: b.Cwd, EnvSHA256: b.EnvSHA256, Risk: answer.Risk, Reason: answer.Message,
		Arguments: shown(c.Arguments), Exe: b.Exe, Files: b.Files, Offers: []string{message.AllowOnce, message.Deny},
	}
	run, _ := table.Decide(settings, answer.Runs, true)
	switch {
	case life.ByHook(), run != toolset.Run, answer.Reason == gate.ReasonUnclear, b.WhyOnce != "":
		return a, ""
	}
	digest := sha256.Sum256(c.Arguments)
	rule, err := approval.Rule(&approval.Facts{
		Tool: c.Tool, Agent: c.Agent, ArgumentsSHA256: hex.EncodeToString(digest[:]), Argv: b.Argv, Cwd: b.Cwd, EnvSHA256: b.EnvSHA256, Exe: b.Exe, Files: b.Files,
	})
	if err != nil {
		return a, ""
	}
	a.Rule, a.Offers = rule, []string{message.AllowOnce, message.AllowAlways, message.Deny}
	return a, approval.Key(rule)
}

// shown are the arguments as a person sees them: if they are too long, their size, and their digest.
func shown(arguments json.RawMessage) json.RawMessage {
	if len(arguments) <= maxShown {
		return arguments
	}
	text, _ := json.Marshal(map[string]any{
		"bytes": len(arguments), "sha256": fmt.Sprintf("%x", sha256.Sum256(arguments)), "beginning": strings.ToValidUTF8(string(arguments[:maxShown/2]), "\ufffd"),
	})
	return text
}

// ask asks a person, and waits for the answer.
func (s *Service) ask(ctx context.Context, l *call, life *tool.Life, a *message.Approval, key string, table *toolset.Approvals) (*string, *message.By, error) {
	client := s.client(l.confined)
	a, err := s.Approvals.Ask(client, a, table.Timeout)
	if err != nil {
		return nil, nil, err
	}
	s.change(l, func() {
		l.approval = a.ID
		s.asked[a.ID] = &asked{key: key, call: life.Call}
	})
	defer func() {
		s.mu.Lock()
		delete(s.asked, a.ID)
		s.mu.Unlock()
	}()
	s.Record.Asked(life.Call, a)
	decision, err := s.Approvals.Wait(client, a.ID, ctx.Done())
	if err != nil {
		if s.Approvals.Cancel(client, a.ID) == nil {
			s.Record.Unanswered(life.Call, a, event.Withdrawn)
		}
		return nil, nil, errCancelled
	}
	end, err := s.Approvals.Get(client, a.ID)
	if err != nil {
		return nil, nil, err
	}
	if decision == nil {
		s.Record.Unanswered(life.Call, end, event.Expired)
	}
	return decision, end.ResolvedBy, nil
}

// client is who asks, for the set of approvals.
func (s *Service) client(confined bool) approval.Client {
	if confined {
		return approval.Client{Owner: "session"}
	}
	return approval.Client{Unconfined: true}
}

// Decide records a person's decision about an approval.
func (s *Service) Decide(id string, d *message.Decided, by message.By) (effect string, err error) {
	if d.Decision == nil {
		return "", http1.Reject(400, "the decision is missing")
	}
	s.mu.Lock()
	of := s.asked[id]
	s.mu.Unlock()
	lasts := d.For
	if of != nil && of.about != nil { // no longer than it's needed, unless the person says so
		lasts = cmp.Or(lasts, of.about.For)
	}
	var resolved *message.Approval
	err = s.Approvals.Resolve(s.client(false), id, *d.Decision, by, func(a *message.Approval) error {
		resolved = a
		switch {
		case of == nil:
			return errors.New("what was asked is gone")
		case of.grant != nil && *d.Decision != message.Deny:
			effect, err = s.Grants.give(of.grant, *d.Decision, lasts, by)
			s.mu.Lock()
			of.effect = effect
			s.mu.Unlock()
			return err
		case *d.Decision == message.AllowAlways:
			return s.Stored.Add(&callstate.Grant{Key: of.key, Tool: a.Tool, Agent: a.Agent, Stored: callstate.Stored{Rule: a.Rule, Created: time.Now().UnixMilli(), By: by}})
		}
		return nil
	})
	switch {
	case err != nil || of == nil:
	case of.grant != nil:
		s.Record.GrantDecided(of.about, resolved, effect, lasts)
	default:
		s.Record.Decided(of.call, resolved)
	}
	return effect, err
}

// who names a person who decided.
func who(by *message.By) string {
	if by == nil {
		return "unknown"
	}
	return fmt.Sprintf("user %d, %s", by.UID, cmp.Or(by.Via, "api"))
}
