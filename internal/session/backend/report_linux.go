package backend

import "github.com/toolguard/toolguard/internal/policy"

// reportEnv returns the rows of the environment, which toolguard itself makes.
func reportEnv(c *policy.Compiled) []policy.Enforceability {
	var rows []policy.Enforceability
	for _, r := range c.Rules {
		if r.Env != nil {
			rows = append(rows, policy.Enforceability{ID: r.ID, Rule: r, Position: r.Position, Status: policy.Enforced, By: "env"})
		}
	}
	return rows
}

// reportLimits returns the rows of the limits that need no cgroup.
func reportLimits(c *policy.Compiled) []policy.Enforceability {
	var rows []policy.Enforceability
	add := func(name, by, note string, set bool, position policy.Position) {
		if set {
			rows = append(rows, policy.Enforceability{ID: "limits." + name, Position: position, Status: policy.Enforced, By: by, Why: note})
		}
	}
	l := c.Limits
	add("wall_time", "supervisor", "late where toolguard must wait for a processor", l.WallTime.D > 0, l.WallTime.Position)
	add("open_files", "rlimit", "", l.OpenFiles.N > 0, l.OpenFiles.Position)
	add("file_size", "rlimit", "", l.FileSize.N > 0, l.FileSize.Position)
	return rows
}
