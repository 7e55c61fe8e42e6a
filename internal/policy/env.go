package policy

import (
	"fmt"
	"slices"
	"strings"
)

// EnvTable matches names of variables against the env rules of one layer.
type EnvTable struct {
	rules    []*Rule
	exact    map[string]*Rule
	prefixes []*Rule
}

func newEnvTable(rules []*Rule) *EnvTable {
	t := &EnvTable{rules: rules, exact: map[string]*Rule{}}
	for _, r := range rules {
		if strings.HasSuffix(r.Env.Name, "*") {
			t.prefixes = append(t.prefixes, r)
		} else {
			t.exact[r.Env.Name] = r
		}
	}
	return t
}

// Rules is every rule in order; the caller must not change it. A nil table has none.
func (t *EnvTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// Find is the rule that decides a name: the exact one, which has the longest literal part that can match, or the
// longest prefix; the last of several.
func (t *EnvTable) Find(name string) *Rule {
	if r := t.exact[name]; r != nil {
		return r
	}
	var best *Rule
	for _, r := range t.prefixes {
		if EnvMatches(r.Env.Name, name) && (best == nil || compareEnv(r, best) > 0) {
			best = r
		}
	}
	return best
}

// EnvMatches says whether a rule's name, exact or with a "*" at its end, matches a variable's.
func EnvMatches(rule, name string) bool {
	if p, ok := strings.CutSuffix(rule, "*"); ok {
		return strings.HasPrefix(name, p)
	}
	return rule == name
}

// CheckEnvName says what is wrong with a rule's name.
func CheckEnvName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("an empty name of a variable")
	case strings.Contains(strings.TrimSuffix(name, "*"), "*"):
		return fmt.Errorf(`%q has a "*" that isn't its end`, name)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '=' || r == 0x7f }):
		return fmt.Errorf(`%q isn't the name of a variable`, name)
	}
	return nil
}

const envForms = `a name is exact, or a prefix with one "*" at its end`

func (c *compiler) layerEnv(src *SourceLayer, ids *ruleIDs) *EnvTable {
	var rules []*Rule
	for i := range src.Env {
		s := src.Env[i]
		id := ids.next("env", s.Place.File)
		if err := CheckEnvName(s.Name); err != nil {
			c.fail(s.Place.At(s.Value), fmt.Errorf("%s: %w", id, err), envForms)
			continue
		}
		rules = append(rules, c.add(&Rule{ID: id, Authority: src.Authority, Resource: Env, Place: s.Place, Env: &s}))
	}
	return newEnvTable(rules)
}

// shellState are the variables by which shells keep where they are and how deep: every shell sets them itself, so they're removed only where a
// rule says so.
var shellState = map[string]bool{"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true}

// ShellState says whether a variable is one of those.
func ShellState(name string) bool { return shellState[name] }

// CheckEnv decides whether the session may see a variable, whatever its value is.
func (c *Compiled) CheckEnv(name string) Verdict { return c.checkEnv(name, NamedAlone(name) != "") }

// CheckVariable is CheckEnv of a variable with its value.
func (c *Compiled) CheckVariable(name, value string) Verdict {
	return c.checkEnv(name, NamedAlone(name) != "" && !c.Inside(name, value))
}

// checkEnv decides about a variable. One that is to be named alone needs a rule with exactly its name among the session's; the other authorities
// only limit what that gives.
func (c *Compiled) checkEnv(name string, alone bool) Verdict {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return Verdict{Reason: NoRule, Layer: -1, Rule: NoMatch}
	}
	v := c.restrict(Env, func(l *Layer) (*Rule, bool) {
		r := l.Env.Find(name)
		return r, r != nil && r.Env.Read || r == nil && shellState[name]
	}, NoRule)
	if own := slices.IndexFunc(c.Layers, func(l *Layer) bool { return l.Authority == Session && l.Stance[Env] != Undeclared }); v.Allow && alone && own >= 0 {
		if c.Layers[own].Env.exact[name] == nil {
			return Verdict{Reason: NoRule, Layer: int16(own), Rule: NoMatch}
		}
	}
	return v
}
