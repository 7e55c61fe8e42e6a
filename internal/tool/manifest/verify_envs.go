package manifest

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// commandEnvs finds programs that see a variable only under the new policy, which a question about the variable alone doesn't show.
func (x *comparison) commandEnvs() {
	var programs words
	eachRule(x.old, x.new, policy.Commands, func(r *policy.Rule) { programs.add(r.Command.Name) })
	vars := variables(x.old, x.new)
	for _, p := range programs.list {
		before, after := rulesOf(x.old, p), rulesOf(x.new, p)
		if len(before) == 0 || len(after) == 0 && !x.runs(p) {
			continue
		}
		for _, name := range vars {
			if !x.old.CheckEnv(name).Allow || !x.new.CheckEnv(name).Allow || sees(before, name) || !sees(after, name) {
				continue
			}
			w := Widening{Code: "tool.environment.widened", Tool: x.tool, Resource: "commands." + p + ".envs", Before: envsOf(before), After: envsOf(after)}
			if x.caller != (Caller{}) {
				w.Caller = &x.caller
			}
			if len(after) > 0 {
				w.Rule = ruleOf(after[len(after)-1])
			}
			x.add(w)
			break // one variable stands for all
		}
	}
}

// runs reports whether the new policy runs a program for which it has no rule.
func (x *comparison) runs(program string) bool {
	v, _ := explain.Ask(x.new, tree{x.at}, explain.Question{Resource: policy.Commands, Argv: []string{program}})
	return v.Allow
}

// rulesOf are the rules about a program, of every authority.
func rulesOf(c *policy.Compiled, program string) (rules []*policy.Rule) {
	for _, r := range c.Rules {
		if r.Resource == policy.Commands && r.Command.Name == program {
			rules = append(rules, r)
		}
	}
	return rules
}

// sees reports whether every rule about a program lets it see a variable.
func sees(rules []*policy.Rule, name string) bool {
	return !slices.ContainsFunc(rules, func(r *policy.Rule) bool { return !r.Command.Sees(name) })
}

func envsOf(rules []*policy.Rule) string {
	for _, r := range rules {
		if r.Command.HasEnvs {
			return strings.Join(r.Command.Envs, ", ")
		}
	}
	return "all"
}
