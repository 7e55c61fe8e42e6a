package backend

import "github.com/toolguard/toolguard/internal/policy"

// reportAudit is the row of what is recorded in addition to denials, where a policy asks for it. why says why it can't be, "" that it can.
func reportAudit(c *policy.Compiled, by, why string) []policy.Enforceability {
	if !c.Audit.Exec {
		return nil
	}
	row := policy.Enforceability{ID: policy.AuditID, Position: c.Audit.Position, Status: policy.Enforced, By: by, Why: why}
	if why != "" {
		row.Status = policy.NotEnforceable
	}
	return []policy.Enforceability{row}
}
