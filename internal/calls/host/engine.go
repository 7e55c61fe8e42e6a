package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolguard/toolguard/internal/calls"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/callstate"
	"github.com/toolguard/toolguard/internal/tool/constraint"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// NewEngine returns all that decides about calls under a loaded policy. o is what loaded it, with a snapshot, so that the policies of all calls
// have the same text. mode is the value of --gate, or "". The store may be nil for a policy that counts no calls.
func NewEngine(o *policyload.Options, c *policy.Compiled, store constraint.Store, mode string, sandboxed bool) (*tool.Engine, error) {
	set := o.Document.Tools()
	g := set.Gate()
	if err := tool.Switch(g, mode, os.Getenv("TOOLGUARD_GATE")); err != nil {
		return nil, err
	}
	return &tool.Engine{
		Store: store, Set: set, Gate: g, Files: hostfs.Machine{}, Home: policyload.Home(), Sandboxed: sandboxed,
		Compile: func(s tool.Scope) (*policy.Compiled, error) {
			q := *o
			q.Ensure = false
			q.Tool, q.Agent = s.Tool, s.Agent
			q.Caller.Provider, q.Caller.Model, q.Caller.Group, q.Caller.Depth = s.Provider, s.Model, s.Group, uint16(min(s.Depth, 1<<16-1))
			if s.Parent {
				q.Workspace = filepath.Dir(c.Workspace)
			}
			return q.Load(c.TmpDir)
		},
	}, nil
}

// EngineWithHooks is NewEngine with the before-hooks of calls that no session serves. Calls are counted in the file state. record names the policy
// from then on.
func EngineWithHooks(o *policyload.Options, c *policy.Compiled, state, mode string, sandboxed bool, record *calls.Recorder) (*tool.Engine, error) {
	store, err := Store(o.Document.Tools(), state)
	if err != nil {
		return nil, err
	}
	e, err := NewEngine(o, c, store, mode, sandboxed)
	if err != nil {
		return nil, err
	}
	record.Under(c)
	hooks := calls.NewHooks(e.Set, "", os.Environ(), record)
	e.Hooks = func(c *gate.Call, risk string, recheck func(json.RawMessage) error) tool.HookResult {
		return hooks.Before(context.Background(), c, risk, recheck)
	}
	return e, nil
}

// Store is where calls are counted; nil for a policy without constraints that need it.
func Store(set *toolset.Set, file string) (constraint.Store, error) {
	switch rule := tool.NeedsState(set); {
	case rule == nil:
		return nil, nil
	case file == "":
		return nil, fmt.Errorf("%s (%s) counts calls: name a file for the counts (--state FILE), outside what the policy lets a tool write", rule.ID, rule.At)
	}
	return callstate.New(file, time.Now), nil
}
