package landlock

import (
	"cmp"
	"slices"
)

// Quoted returns a copy of the plan's data whose paths are quoted, for another process of toolguard to Unquote.
func (p *Plan) Quoted(quote func(string) string) *Plan {
	q := &Plan{ABI: p.ABI, Rulesets: slices.Clone(p.Rulesets), Inner: p.Inner}
	for _, rs := range q.all() {
		rs.Quiet, rs.Grants = slices.Clone(rs.Quiet), slices.Clone(rs.Grants)
		for i := range rs.Quiet {
			rs.Quiet[i] = quote(rs.Quiet[i])
		}
		for i := range rs.Grants {
			rs.Grants[i].Path, rs.Grants[i].Rule = quote(rs.Grants[i].Path), nil
		}
	}
	return q
}

// Unquote undoes Quoted. The process is in mounts that may hide what the plan grants: such grants are left out, which can only deny more.
func (p *Plan) Unquote(unquote func(string) (string, error)) (err error) {
	undo := func(s *string) {
		text, e := unquote(*s)
		*s, err = text, cmp.Or(err, e)
	}
	for _, rs := range p.all() {
		for i := range rs.Quiet {
			undo(&rs.Quiet[i])
		}
		for i := range rs.Grants {
			undo(&rs.Grants[i].Path)
			rs.Grants[i].hidden = true
		}
	}
	return err
}

func (p *Plan) all() []*Ruleset {
	all := []*Ruleset{&p.Inner}
	for i := range p.Rulesets {
		all = append(all, &p.Rulesets[i])
	}
	return all
}
