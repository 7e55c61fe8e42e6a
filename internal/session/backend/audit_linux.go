package backend

import "github.com/toolguard/toolguard/internal/policy"

// reportAudit returns the row of the recording of executions, if the policy wants it; why is why it can't be enforced, "" if it can.
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
