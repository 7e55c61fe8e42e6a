package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/envname"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Explain is Ask with every rule that matched, layer by layer. It reads the same tables with the same steps as the
// decision, and the winner is the decision's rule.
func Explain(c *policy.Compiled, sys fspath.FileSystem, q Question) Explanation {
	v, a := ask(c, sys, q)
	e := Explanation{Answer: answer(c, v, a)}
	if a.note != "" && v.Layer < 0 {
		return e // no rule was tried: the target is invalid
	}
	a.Resource = q.Resource
	if q.Resource != policy.Commands || a.program != "" {
		e.Layers = explainLayers(c, a, a.Target)
		e.Layers = append(e.Layers, explainAliases(c, sys, a)...)
	}
	if q.Resource == policy.Commands && a.program != "" { // fs must agree, too
		x := asked{Question: Question{Resource: policy.FS, Caps: policy.Execute}, target: a.program}
		e.Layers = append(e.Layers, explainLayers(c, x, a.program)...)
		e.Layers = append(e.Layers, explainAliases(c, sys, x)...)
	}
	return e
}

// explainLayers decides by each layer separately. input is the target as written.
func explainLayers(c *policy.Compiled, a asked, input string) []LayerExplanation {
	var out []LayerExplanation
	for _, l := range c.Layers {
		if l.Defaults[a.Resource] == policy.Undeclared && (a.Resource != policy.FS || l.Protect == nil && l.Secrets == nil) {
			continue
		}
		one := policy.Compiled{Workspace: c.Workspace, Layers: []*policy.Layer{l}, Rules: c.Rules}
		x := LayerExplanation{Authority: l.Authority, Resource: a.Resource, DefaultAction: l.Defaults[a.Resource]}
		var v policy.Verdict
		switch a.Resource {
		case policy.FS:
			v = one.CheckFS(a.target, a.Caps)
			if v.Reason == policy.NoRule {
				v.Reason = c.UnmatchedReason(input, a.target)
			}
			x.Candidates = fsCandidates(l, a.target, a.Caps)
		case policy.Net:
			v = one.CheckNet(&a.net)
			x.Candidates = netCandidates(l, &a.net)
		case policy.Env:
			v = one.CheckEnv(a.target)
			x.Candidates = envCandidates(l, a.target)
		case policy.Commands:
			v = one.CheckCommand(a.program, a.Argv)
			x.Candidates = commandCandidates(l, a.program, a.Argv)
		}
		if l.Authority == policy.Builtin && v.Allow {
			continue // toolguard's own layer decides nothing here
		}
		x.Allow, x.Reason = v.Allow, v.Reason
		out = append(out, x)
	}
	return out
}

// explainAliases explains the rules that apply to a target because of its aliases.
func explainAliases(c *policy.Compiled, sys fspath.FileSystem, a asked) (out []LayerExplanation) {
	if a.Resource != policy.FS {
		return nil
	}
	add := func(l *policy.Layer, r *policy.Rule, also, grade string, allow bool, reason policy.Reason) {
		if allow {
			reason = policy.Allowed
		}
		out = append(out, LayerExplanation{
			Authority: l.Authority, Resource: policy.FS, DefaultAction: policy.Allow, Also: also, Allow: allow, Reason: reason,
			Candidates: []Candidate{{Rule: r, Won: true, Grade: grade, Why: "it names the same file"}},
		})
	}
	for i := range c.Aliases {
		alias := &c.Aliases[i]
		also, ok := alias.Other(a.target)
		if !ok {
			continue
		}
		for _, l := range c.Layers {
			fs, by := l.RulesByAlias(alias, fspath.Beneath(a.target, alias.From))
			if fs != nil {
				add(l, fs, also, "bind mount", a.Caps&^fs.FS.Caps == 0, l.DenialReason())
			}
			for k, r := range by {
				if r != nil {
					add(l, r, also, kinds[k].name+", bind mount", a.Caps&policy.RestrictedCaps[k] == 0, policy.Protected)
				}
			}
		}
	}
	id, err := c.LinkedFile(sys, a.target)
	for _, k := range c.Links {
		if r := c.Rules[k.Rule]; err == nil && k.File == id && r.FS.Path != a.target {
			add(c.Layers[k.Layer], r, r.FS.Path, "hard link", a.Caps&^r.FS.Caps == 0, c.Layers[k.Layer].DenialReason())
		}
	}
	return out
}

// lost returns why a candidate lost to the winner, where both match.
func lost(what string, winner *policy.Rule) string { return fmt.Sprintf("%s than %s", what, winner.ID) }

func fsCandidates(l *policy.Layer, path string, want policy.Caps) []Candidate {
	winner := l.FS.Deciding(path)
	out := tableCandidates(l.FS, path, winner)
	for k, t := range l.Restrictions() {
		if want&policy.RestrictedCaps[k] == 0 {
			continue
		}
		for _, c := range tableCandidates(t, path, t.Deciding(path)) {
			c.Grade = kinds[k].name + ", " + c.Grade
			switch {
			case !c.Won:
			case policy.Restriction(k).Removes(c.Rule) == 0:
				c.Won, c.Why = false, "an exception: it denies nothing"
			case winner != nil && winner.FS.Exempts()[k]:
				c.Won, c.Why = false, winner.ID+" has "+kinds[k].lift+" = true"
			default:
				c.Why = kinds[k].why
			}
			out = append(out, c)
		}
	}
	return out
}

// kinds describe the restrictions.
var kinds = [policy.NumRestrictions]struct{ name, lift, why string }{
	policy.RestrictProtect: {"protect", "unprotect", "it denies create, update and delete"},
	policy.RestrictSecrets: {"secrets", "secret", "credentials are kept here: it denies read and execute"},
}

// tableCandidates returns every rule of the table that matches a path, in order.
func tableCandidates(t *policy.FSTable, path string, winner *policy.Rule) []Candidate {
	if winner == nil {
		return nil
	}
	depths := t.Depths(path)
	won := depths[winner]
	var out []Candidate
	for _, r := range t.Rules() {
		d, ok := depths[r]
		if !ok {
			continue
		}
		c := Candidate{Rule: r, Won: r == winner, Grade: fmt.Sprintf("depth %d, %s", d, fsForm(r))}
		switch {
		case c.Won && r.FS.Last != "":
			c.Why = "the deepest match; its capabilities apply in full"
		case c.Won && r.Grants():
			c.Why = "the most specific match; a built-in rule, it adds to what there is without it"
		case c.Won:
			c.Why = "the most specific match; its capabilities apply in full"
		case d < won:
			c.Why = lost("it matches less deep", winner)
		case r.FS.Last != "" && winner.FS.Last == "":
			c.Why = "at the same depth the literal " + winner.ID + " beats a pattern"
		default:
			c.Why = lost("it's as specific and comes earlier", winner)
		}
		out = append(out, c)
	}
	return out
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func fsForm(r *policy.Rule) string {
	if r.FS.Last != "" {
		return "pattern"
	}
	return "literal"
}

func netCandidates(l *policy.Layer, t *netname.Target) []Candidate {
	winner := l.Net.Find(t)
	matched := map[*policy.Rule]bool{}
	l.Net.Each(t, func(r *policy.Rule) { matched[r] = true })
	hosts := map[*policy.Rule]bool{}
	l.Net.EachHost(t, func(r *policy.Rule) { hosts[r] = true })
	var out []Candidate
	for _, r := range l.Net.Rules() {
		if !hosts[r] {
			continue
		}
		c := Candidate{Rule: r, Won: r == winner, Grade: counted(r.Net.Parts(), "part") + ", " + hostForm(r.Net)}
		switch {
		case c.Won && !matched[r]:
			c.Why = "it's for " + schemeText(r.Net) + ", which looks the same as the target"
		case c.Won:
			c.Why = "the most specific match"
		case !matched[r]:
			c.Why = "the host matches, but not " + missing(r.Net, t)
		case !matched[winner], policy.CompareNet(r, winner) > 0:
			c.Why = winner.ID + " is for " + schemeText(winner.Net) + ", which looks the same as the target, and comes first"
		case r.Net.Parts() < winner.Net.Parts():
			c.Why = lost("it names fewer parts", winner)
		case r.Net.HostRank() < winner.Net.HostRank():
			c.Why = lost("its host is less specific", winner)
		default:
			c.Why = lost("it's as specific and comes earlier", winner)
		}
		out = append(out, c)
	}
	return out
}

func schemeText(n *policy.CompiledNet) string {
	if n.Scheme == "" {
		return "any connection"
	}
	return n.Scheme
}

func hostForm(n *policy.CompiledNet) string {
	switch {
	case n.Name != "", n.Prefix.IsValid() && n.Prefix.IsSingleIP():
		return "exact host"
	case n.Suffix != "":
		return "wildcard"
	case n.Prefix.IsValid():
		return "range"
	}
	return "every address"
}

// missing names the part of a target that a rule with the right host doesn't match.
func missing(n *policy.CompiledNet, t *netname.Target) string {
	without := func(f func(*policy.CompiledNet)) bool { m := *n; f(&m); return m.Matches(t) }
	switch {
	case n.Listen != t.Listen:
		return "the action: listening and connecting have rules of their own"
	case n.Proto != "" && n.Proto != t.Protocol:
		return "the protocol"
	case without(func(m *policy.CompiledNet) { m.Scheme = "" }):
		return "the scheme"
	case without(func(m *policy.CompiledNet) { m.Port = int(t.Port) }):
		return "the port"
	case without(func(m *policy.CompiledNet) { m.Path, m.PathPrefix = nil, "" }):
		return "the path"
	case without(func(m *policy.CompiledNet) { m.Methods = nil }):
		return "the method"
	}
	return "the rest"
}

func envCandidates(l *policy.Layer, name string) []Candidate {
	winner := l.Env.Find(name)
	alone := ""
	if l.Authority == policy.Session {
		alone = envname.NeedsExactRule(name)
	}
	var out []Candidate
	for _, r := range l.Env.Rules() {
		if !envname.Matches(r.Env.Name, name) {
			continue
		}
		literal := strings.TrimSuffix(r.Env.Name, "*")
		c := Candidate{Rule: r, Won: r == winner, Grade: counted(len(literal), "byte") + ", prefix"}
		if literal == r.Env.Name {
			c.Grade = counted(len(literal), "byte") + ", exact"
		}
		switch {
		case c.Won && alone != "" && literal != r.Env.Name:
			c.Won, c.Why = false, alone+": only a rule with exactly this name grants it"
		case c.Won:
			c.Why = "the longest match"
		case len(literal) < len(strings.TrimSuffix(winner.Env.Name, "*")):
			c.Why = lost("it's shorter", winner)
		case literal != r.Env.Name && !strings.HasSuffix(winner.Env.Name, "*"):
			c.Why = "the exact " + winner.ID + " beats a prefix"
		default:
			c.Why = lost("it's as long and comes earlier", winner)
		}
		out = append(out, c)
	}
	return out
}

func commandCandidates(l *policy.Layer, program string, argv []string) []Candidate {
	called, _ := policy.SplitArgv(argv)
	winner := l.Commands.Rule(program, called)
	var out []Candidate
	for _, r := range l.Commands.Rules() {
		if r.Command.Program == "" || r.Command.Program != program {
			continue
		}
		c := Candidate{Rule: r, Won: r == winner, Grade: "program " + program, Why: cmp.Or(r.Command.NameMismatch(called), "the rule for this program")}
		if !c.Won && r.Command.AcceptsName(called) {
			c.Why = lost("it names the same program and comes earlier", winner)
		}
		out = append(out, c)
	}
	return out
}
