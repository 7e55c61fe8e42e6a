// Package tool answers tool calls under one policy: whether the caller sees the tool, whether the arguments are valid, and whether the call
// may run. Each step can only deny: what is denied by one isn't seen by the next.
//
// The package keeps compiled policies, since each tool and each caller has its own. It makes no system calls itself.
package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/constraint"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/schema"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// Scope selects a policy: on behalf of which tool and caller.
type Scope struct {
	Tool                          string // "" for no tool's table
	Agent, Provider, Model, Group string
	Depth                         int
	Parent                        bool // the folder that contains the workspace counts as workspace
}

// Engine answers calls.
type Engine struct {
	Set       *toolset.Set
	Compile   func(Scope) (*policy.Compiled, error)
	Gate      *toolset.Gate // with what the command line says
	Files     fspath.FileSystem
	Home      string           // "" if it isn't known
	Sandboxed bool             // this process is in a session
	Store     constraint.Store // nil: the policy has no constraints that are counted

	// Hooks runs the before-hooks for Answer; nil: there are none. A hook sees only arguments that recheck allows.
	Hooks func(c *gate.Call, risk string, recheck func(json.RawMessage) error) HookResult

	policies map[Scope]*policy.Compiled
	settings map[string]*toolset.Settings
	schemas  map[string]*schema.Schema
	visible  map[visibilityKey]*visibility.Removal
	tables   map[string]string // by tool: the name under which tables grant something to it
}

// visibilityKey is everything that a tool's visibility depends on.
type visibilityKey struct {
	tool, server string
	caller       visibility.Caller
}

// maxKept is how many policies, settings and answers about visibility are kept of each.
const maxKept = 256

// kept returns the value of a key, which it makes if it isn't there.
func kept[K comparable, V any](m *map[K]V, key K, load func() (V, error)) (V, error) {
	if v, ok := (*m)[key]; ok {
		return v, nil
	}
	v, err := load()
	if err != nil {
		return v, err
	}
	if *m == nil || len(*m) >= maxKept {
		*m = map[K]V{}
	}
	(*m)[key] = v
	return v, nil
}

// Answer takes a call through its life up to a person's decision, and counts it if it may run or if a person is asked about it. The error is one of
// the policy, of this machine or of this program, and not the call's: the call doesn't run.
func (e *Engine) Answer(c *gate.Call) (*gate.Answer, error) {
	for l := NewLife(c); ; {
		switch l.Step {
		case Judge:
			a, err := e.Judge(l.Call)
			if err != nil {
				return nil, err
			}
			l.Judged(a)
		case Hooks:
			r := HookResult{}
			if e.Hooks != nil {
				r = e.Hooks(l.Call, l.Answer.Risk, func(arguments json.RawMessage) error { return e.Recheck(l.Call, arguments) })
			}
			l.Hooked(r)
		case Constraints:
			l.Permitted(nil) // they are checked when the call is counted
		case Denied:
			return l.Answer, nil
		default:
			return e.counted(l)
		}
	}
}

// counted counts a call, and returns its answer.
func (e *Engine) counted(l *Life) (*gate.Answer, error) {
	a := l.Answer
	d, err := e.Count(l.Call)
	switch {
	case err != nil:
		return nil, err
	case d != nil:
		d.Risk, d.Root = a.Risk, a.Root
		return d, nil
	case l.Rewritten:
		a.Arguments = l.Call.Arguments
	}
	return a, nil
}

// Recheck judges a call with other arguments, before the next hook sees them. The error is why it's denied.
func (e *Engine) Recheck(c *gate.Call, arguments json.RawMessage) error {
	other := *c
	other.Arguments = arguments
	a, err := e.Judge(&other)
	if err == nil && a.Decision == gate.Deny {
		err = errors.New(a.Message)
	}
	return err
}

// Judge decides whether a call is of a visible tool, valid, and allowed by the gate. Nothing is counted. The error is as that of Answer.
func (e *Engine) Judge(c *gate.Call) (a *gate.Answer, err error) {
	defer recovered(&a, &err)
	r, err := e.request(c, e.Settings(c))
	if err != nil {
		return nil, err
	}
	a = e.decide(c, r)
	a.Risk, a.Root = r.Settings.Risk, r.Policy.Workspace
	return a, nil
}

// recovered makes an error of a panic.
func recovered(a **gate.Answer, err *error) {
	if p := recover(); p != nil {
		*a, *err = nil, fmt.Errorf("a mistake in toolguard: %v", p)
	}
}

// decide takes a call through the steps. The first denial is the answer.
func (e *Engine) decide(c *gate.Call, r *gate.Request) *gate.Answer {
	if a := e.visibility(c); a != nil {
		return a
	}
	if a := e.checkSchema(c, r.Settings); a != nil {
		return a
	}
	return gate.Decide(r)
}

// Settings returns what the policy says about the tool of a call.
func (e *Engine) Settings(c *gate.Call) *toolset.Settings {
	s, _ := kept(&e.settings, c.Tool, func() (*toolset.Settings, error) { return e.Set.Settings(c.Tool, c.Bare), nil })
	return s
}

// visibility denies a call of a tool that the caller doesn't see.
func (e *Engine) visibility(c *gate.Call) *gate.Answer {
	key := visibilityKey{c.Tool, c.Server, visibility.Caller{
		Agent: c.Agent, Provider: c.Provider, Model: c.Model, Group: c.Group, Owner: c.Owner, Depth: c.Depth, Sandboxed: e.Sandboxed,
	}}
	removed, _ := kept(&e.visible, key, func() (*visibility.Removal, error) {
		return visibility.Decide(e.Set, key.caller, []visibility.Tool{{Name: c.Tool, Server: c.Server}}).Tools[0].Removed, nil
	})
	if removed == nil {
		return nil
	}
	return invisible(c, removed)
}

func invisible(c *gate.Call, removed *visibility.Removal) *gate.Answer {
	reason := gate.ReasonNotVisible
	switch removed.Reason {
	case visibility.OwnerOnly, visibility.BadName, visibility.NameCollision:
		reason = removed.Reason
	case visibility.Forbidden:
		reason = string(policy.Constraint)
	}
	return gate.Denied(c, reason, gate.ToolRule(removed.Rule), fmt.Sprintf("%s: %s", removed.Stage, removed.Why()))
}

// checkSchema denies a call of a local tool whose arguments don't match its schema.
func (e *Engine) checkSchema(c *gate.Call, s *toolset.Settings) *gate.Answer {
	if s.Command == nil && s.Schema == nil {
		return nil
	}
	rule := s.Rules["command"]
	if s.Schema != nil {
		rule = s.Schema.Rule
	}
	of, err := kept(&e.schemas, c.Tool, func() (*schema.Schema, error) {
		if s.Schema == nil {
			return schema.Default(s.Command), nil
		}
		return schema.Parse(s.Schema.Text)
	})
	if err != nil {
		return gate.Denied(c, string(policy.EngineError), gate.ToolRule(rule), err.Error())
	}
	if s.Command == nil {
		err = of.Validate(c.Arguments)
	} else { // which validates, too
		_, err = of.Argv(s.Command, c.Arguments)
	}
	if err != nil {
		return gate.Denied(c, gate.ReasonSchema, gate.ToolRule(rule), err.Error())
	}
	return nil
}

// Permits returns the denial of a call by a constraint; nil if none denies it. The call isn't counted.
func (e *Engine) Permits(c *gate.Call) (a *gate.Answer, err error) {
	defer recovered(&a, &err)
	if e.Store == nil {
		return nil, nil
	}
	d, err := e.Store.Check(call(c), e.Settings(c))
	return constrained(c, d, err)
}

// Count counts a call, unless a constraint denies it: then it returns the denial.
func (e *Engine) Count(c *gate.Call) (a *gate.Answer, err error) {
	defer recovered(&a, &err)
	if e.Store == nil {
		return nil, nil
	}
	d, err := e.Store.Begin(call(c), e.Settings(c))
	return constrained(c, d, err)
}

// call is a call as its history has it. Two calls with one id are the same if everything is that decides about them.
func call(c *gate.Call) *constraint.Call {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q %q %q %q %q %t %d", c.Arguments, c.Cwd, c.Agent, c.Provider, c.Model, c.Group, c.Session, c.Owner, c.Depth)
	return &constraint.Call{ID: c.ID, Invocation: c.Invocation, Arguments: hex.EncodeToString(hash.Sum(nil)[:16])}
}

// constrained is the answer of a store about a call.
func constrained(c *gate.Call, d *constraint.Denial, err error) (*gate.Answer, error) {
	if rejected := (*constraint.RejectedError)(nil); errors.As(err, &rejected) {
		err = &gate.BadCall{Err: err}
	}
	if err != nil || d == nil {
		return nil, err
	}
	return gate.Denied(c, constraint.Reason, gate.ToolRule(d.Rule), d.Text), nil
}

// End records that a call has ended.
func (e *Engine) End(end *gate.End) error {
	if e.Store == nil {
		return errors.New("the policy counts no calls")
	}
	return e.Store.End(end.Invocation, end.ID, end.OK)
}

// NeedsState returns a rule of the policy that counts calls; nil for none.
func NeedsState(set *toolset.Set) *toolset.Rule {
	for _, l := range set.Layers {
		for _, t := range l.Tools {
			key := "constraints.max_invocations"
			if t.MaxInvocations == 0 {
				key = "constraints.only_after"
			}
			if t.MaxInvocations > 0 || len(t.OnlyAfter) > 0 {
				r := t.ID(key)
				return &r
			}
		}
	}
	return nil
}

// request finds the policies under which the tool runs.
func (e *Engine) request(c *gate.Call, s *toolset.Settings) (*gate.Request, error) {
	r := &gate.Request{Call: c, Settings: s, Gate: e.Gate, Approvals: e.Set.Approvals(c.Agent), Files: e.Files, Home: e.Home}
	scope := Scope{Tool: e.table(c), Agent: c.Agent, Provider: c.Provider, Model: c.Model, Group: c.Group, Depth: c.Depth}
	var err error
	if r.Policy, err = e.policy(scope); err != nil {
		return nil, err
	}
	base := scope
	base.Tool = ""
	if r.Base, err = e.policy(base); err != nil {
		return nil, err
	}
	if e.Gate.AllowParentAccess && !declaresFS(r.Policy) && path.Dir(r.Policy.Workspace) != "/" {
		scope.Parent = true
		r.Parent, err = e.policy(scope)
	}
	return r, err
}

// Recompile makes the engine compile its policies again, because Compile compiles others from now on.
func (e *Engine) Recompile() { e.policies = nil }

func (e *Engine) policy(s Scope) (*policy.Compiled, error) {
	return kept(&e.policies, s, func() (*policy.Compiled, error) { return e.Compile(s) })
}

// table is the name under which the tables of the policy grant something to a call: that of the tool, as it was given, or of its server's
// process. Each author's files have their own aliases. It's "" for a tool that no table is about, so that all of these have one policy.
func (e *Engine) table(c *gate.Call) string {
	name, _ := kept(&e.tables, c.Tool, func() (string, error) {
		name := toolset.Normal(c.Tool)
		if c.Server != "" {
			name = "server:" + c.Server
		}
		for _, l := range e.Set.Layers {
			if len(l.Patterns(name)) > 0 {
				return name, nil
			}
		}
		return "", nil
	})
	return name
}

// declaresFS reports whether a policy file has a rule about files.
func declaresFS(c *policy.Compiled) bool {
	return slices.ContainsFunc(c.Rules, func(r *policy.Rule) bool { return r.Resource == policy.FS && !r.Builtin() })
}
