package calls

import (
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// BindTo is temporary.
func BindTo(env []string, c *policy.Compiled) Binder {
	return func(call *gate.Call, s *toolset.Settings) (*Bound, error) {
		return &Bound{Cwd: c.Workspace, WhyOnce: "temporary", Check: func() error { return nil }}, nil
	}
}
