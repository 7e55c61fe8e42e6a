package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/envname"
	"github.com/toolguard/toolguard/internal/policy/fspath"
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

// Rules returns every rule in order; the caller must not change it. A nil table has none.
func (t *EnvTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// Find returns the rule that decides a name: the exact one, which has the longest literal part that can match, or the
// longest prefix; the last of several.
func (t *EnvTable) Find(name string) *Rule {
	if r := t.exact[name]; r != nil {
		return r
	}
	var best *Rule
	for _, r := range t.prefixes {
		if envname.Matches(r.Env.Name, name) && (best == nil || compareEnv(r, best) > 0) {
			best = r
		}
	}
	return best
}

func (c *compiler) layerEnv(src *SourceLayer, ids *ruleIDs) *EnvTable {
	var rules []*Rule
	for i := range src.Env {
		s := src.Env[i]
		id := ids.next("env", s.Position.File)
		if err := envname.Check(s.Name); err != nil {
			c.fail(s.Position.At(s.Value), fmt.Errorf("%s: %w", id, err), envname.Forms)
			continue
		}
		rules = append(rules, c.add(&Rule{ID: id, Authority: src.Authority, Resource: Env, Position: s.Position, Env: &s}))
	}
	return newEnvTable(rules)
}

// CheckEnv decides whether the session may see a variable, whatever its value is.
func (c *Compiled) CheckEnv(name string) Verdict {
	return c.checkEnv(name, envname.NeedsExactRule(name) != "")
}

// CheckVariable is CheckEnv of a variable with its value.
func (c *Compiled) CheckVariable(name, value string) Verdict {
	return c.checkEnv(name, envname.NeedsExactRule(name) != "" && !c.listsWorkspaceOnly(name, value))
}

// checkEnv decides on a variable. If exact, the session's layer needs a rule with exactly its name; the other authorities only limit that
// rule.
func (c *Compiled) checkEnv(name string, exact bool) Verdict {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return Verdict{Reason: NoRule, Layer: -1, Rule: NoMatch}
	}
	v := c.restrict(Env, func(l *Layer) (*Rule, bool) {
		r := l.Env.Find(name)
		return r, r != nil && r.Env.Read || r == nil && envname.IsShellState(name)
	}, NoRule)
	if own := slices.IndexFunc(c.Layers, func(l *Layer) bool { return l.Authority == Session && l.Defaults[Env] != Undeclared }); v.Allow && exact && own >= 0 {
		if c.Layers[own].Env.exact[name] == nil {
			return Verdict{Reason: NoRule, Layer: int16(own), Rule: NoMatch}
		}
	}
	return v
}

// listsWorkspaceOnly reports whether a variable lists folders, and all of them are in the workspace.
func (c *Compiled) listsWorkspaceOnly(name, value string) bool {
	if !envname.IsSearchPath(name) {
		return false
	}
	for dir := range strings.SplitSeq(value, ":") {
		if dir == "" || !fspath.Within(dir, c.Workspace) || strings.Contains(dir+"/", "/../") {
			return false
		}
	}
	return true
}
