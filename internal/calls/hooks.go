package calls

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/hook"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// maxHook is the longest deadline of a hook.
const maxHook = time.Minute

// policyHooks are the hooks of a policy.
type policyHooks struct {
	*hook.Runner
	before, after []*toolset.Hook
	session       string
	record        *Recorder
}

// NewHooks returns the hooks of a policy. env is the environment in which toolguard was started.
func NewHooks(set *toolset.Set, session string, env []string, record *Recorder) Hooks {
	h := &policyHooks{session: session, record: record}
	h.before, h.after = set.Hooks()
	h.Runner = &hook.Runner{Env: env, URL: hook.Ship(env), Check: hook.Seal(slices.Concat(h.before, h.after), env), Failed: record.AfterFailed}
	return h
}

// HookFiles returns the files of a policy's hooks that its session must not write.
func HookFiles(set *toolset.Set, env []string) []string {
	before, after := set.Hooks()
	return hook.Files(slices.Concat(before, after), env)
}

// CheckHooks returns an error if a session under a policy could give one of its hooks, which run outside, modules of its own.
func CheckHooks(set *toolset.Set, env []string, c *policy.Compiled) error {
	before, after := set.Hooks()
	for _, m := range hook.ModulesOf(slices.Concat(before, after), env) {
		for _, dir := range m.Folders {
			if c.CheckFS(dir+"/module", policy.Create).Allow {
				return fmt.Errorf("hook %s runs outside of the session, and %s loads modules from %s, which the command may write: "+
					"move the hook to a folder that the command may only read", m.Hook, m.Interpreter, dir)
			}
		}
	}
	return nil
}

// about is what hooks get about a call.
func (h *policyHooks) about(c *gate.Call, risk string) hook.Before {
	return hook.Before{
		ID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Cwd: c.Cwd, Agent: c.Agent, Session: h.session, Invocation: c.Invocation, Risk: risk,
	}
}

// Before implements Hooks.
func (h *policyHooks) Before(ctx context.Context, c *gate.Call, risk string, recheck func(json.RawMessage) error) tool.HookResult {
	v := h.Runner.Before(ctx, h.before, h.about(c, risk), c.Bare, recheck)
	r := tool.HookResult{}
	if v.Rewritten { // what the gate denies is denied by it, in the next step
		r.Arguments = v.Arguments
	}
	if b := v.Block; b != nil {
		r.Blocked, r.Rule = b.Text, gate.ToolRule(b.Rule)
		if b.Failed {
			h.record.HookFailed(c, risk, b.Hook, "before", b.Text)
		}
	}
	if len(v.Asks) > 0 && r.Blocked == "" {
		r.Ask, r.Rule = v.Asks[0].Text, gate.ToolRule(v.Asks[0].Rule)
	}
	return r
}

// After implements Hooks.
func (h *policyHooks) After(c *gate.Call, risk string, end *message.End) {
	h.Runner.After(h.after, hook.After{Before: h.about(c, risk), Result: end.Result, Error: end.Error, Duration: end.Duration}, c.Bare)
}

// Close implements Hooks.
func (h *policyHooks) Close() { h.Runner.Close(maxHook) }
