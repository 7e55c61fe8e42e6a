package manifest

import "github.com/toolguard/toolguard/internal/policy"

// allowed returns what all layers of a side allow.
func (s *search) allowed(side int, best []byte) policy.Caps {
	all := s.caps
	for _, d := range s.sides[side] {
		caps, exempts := d.caps, [policy.NumRestrictions]bool{}
		if d.fs >= 0 && best[d.fs] != 0 {
			c := s.classes[best[d.fs]]
			caps, exempts = c.caps, c.exempts
		}
		for k, t := range []int{policy.RestrictProtect: d.protect, policy.RestrictSecrets: d.secrets} {
			if t >= 0 && !exempts[k] {
				caps &^= s.classes[best[t]].caps
			}
		}
		all &= caps
	}
	return all
}
