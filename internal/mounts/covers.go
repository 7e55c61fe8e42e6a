package mounts

import "github.com/toolguard/toolguard/internal/policy"

// Covers returns the capabilities on a path that the policy denies, and that only the mounts take away: a descriptor of a file from outside isn't in
// them, and Landlock permits opening it again.
func (p *Plan) Covers(path string) policy.Caps {
	permitted := policy.AllCaps
	for _, h := range hierarchies(p.c) {
		permitted &= h.under(p.c, path)
	}
	return permitted &^ p.c.Caps(path)
}
