package imports

import (
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// maxPatterns is how many patterns one regular expression may become.
const maxPatterns = 64

// expression is what a regular expression is as patterns of tools' names.
type expression struct {
	patterns []string // nil: it's none, or too many
	exact    bool     // they match what the expression matches. Else they match more

	begins, ends bool // it's anchored there
}

// otherDialect finds what Python reads in another way than package syntax, or not at all.
var otherDialect = lazy.Regexp(`\\[QECz]|\{,|\(\?[A-Za-z-]*U|\(\?<|\[:|\[\[`)

// expressionOf translates a regular expression: literals, ".*", "." and alternatives. In place of anything else there's a "*".
func expressionOf(re string) expression {
	tree, err := syntax.Parse(re, syntax.Perl)
	if err != nil || otherDialect().MatchString(re) {
		return expression{}
	}
	e := expression{exact: true}
	e.patterns = e.walk(tree.Simplify(), true, true)
	for i, p := range e.patterns {
		for strings.Contains(p, "**") {
			p = strings.ReplaceAll(p, "**", "*")
		}
		e.patterns[i] = p
	}
	slices.Sort(e.patterns)
	if e.patterns = slices.Compact(e.patterns); len(e.patterns) > maxPatterns || slices.Contains(e.patterns, "") {
		return expression{}
	}
	return e
}

// walk returns the patterns of a part of the expression. first and last: nothing is before or after it.
func (e *expression) walk(re *syntax.Regexp, first, last bool) []string {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}
	case syntax.OpBeginText, syntax.OpBeginLine:
		e.begins = e.begins || first
		e.exact = e.exact && first
		return []string{""}
	case syntax.OpEndText, syntax.OpEndLine:
		e.ends = e.ends || last
		e.exact = e.exact && last
		return []string{""}
	case syntax.OpLiteral:
		e.exact = e.exact && !slices.Contains(re.Rune, '*') // of a pattern, that's any text
		return []string{string(re.Rune)}
	case syntax.OpCapture:
		return e.walk(re.Sub[0], first, last)
	case syntax.OpConcat:
		return e.concat(re.Sub, first, last)
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			if out = append(out, e.walk(sub, false, false)...); len(out) > maxPatterns {
				return out
			}
		}
		return out
	case syntax.OpCharClass:
		if list := classOf(re.Rune); list != nil {
			return list
		}
	case syntax.OpQuest:
		return append([]string{""}, e.walk(re.Sub[0], false, false)...)
	case syntax.OpStar:
		if op := re.Sub[0].Op; op == syntax.OpAnyChar || op == syntax.OpAnyCharNotNL {
			return []string{"*"}
		}
	}
	e.exact = false
	return []string{"*"}
}

func (e *expression) concat(parts []*syntax.Regexp, first, last bool) []string {
	out := []string{""}
	for i, sub := range parts {
		tails := e.walk(sub, first && i == 0, last && i == len(parts)-1)
		if len(out)*len(tails) > maxPatterns {
			e.exact = false
			tails = []string{"*"}
		}
		var next []string
		for _, head := range out {
			for _, tail := range tails {
				next = append(next, head+tail)
			}
		}
		out = next
	}
	return out
}

// classOf lists the characters of a small class, such as [ab].
func classOf(ranges []rune) (out []string) {
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if out = append(out, string(r)); len(out) > 4 || r == '*' {
				return nil
			}
		}
	}
	return out
}

// whole returns the patterns of whole names that an expression surely matches, as it's searched for in them: for what is to be allowed.
// It's nil if the expression is no pattern.
func (e expression) whole() []string {
	if !e.exact {
		return nil
	}
	return e.valid(e.patterns)
}

// anywhere returns the patterns of all names in which the expression can be found: for what is to be denied. It's "*" for an
// expression that can't be read.
func (e expression) anywhere() []string {
	if e.patterns == nil {
		return []string{"*"}
	}
	out := make([]string, len(e.patterns))
	for i, p := range e.patterns {
		if !e.begins && !strings.HasPrefix(p, "*") {
			p = "*" + p
		}
		if !e.ends && !strings.HasSuffix(p, "*") {
			p += "*"
		}
		out[i] = p
	}
	return e.valid(out)
}

// valid leaves out what no tool's name can be.
func (e expression) valid(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return !validPattern(p) })
}

// validPattern reports whether a policy can have the pattern.
func validPattern(p string) bool {
	return p != "" && toolset.ValidName(strings.ReplaceAll(p, "*", "x"))
}
