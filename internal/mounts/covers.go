package mounts

import "github.com/toolguard/toolguard/internal/policy"

// Covers returns the capabilities on a path that the policy denies, and that only the mounts take away: a descriptor of a file from outside isn't in
// them, and Landlock permits opening it again.
func (p *Plan) Covers(path string) policy.Caps {
	return permitted(p.c, hierarchies(p.c), path) &^ p.c.Caps(path)
}
