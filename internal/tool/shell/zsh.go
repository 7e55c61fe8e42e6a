package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// zshWord finds what only zsh does with a word: =cmd, glob qualifiers such as *(e:'code':), numeric ranges, and dynamic directories.
// A qualifier may execute code, so that a word with one isn't clear.
func (a *analyzer) zshWord(source string, atoms []atom) {
	open := 0
	for i, t := range atoms {
		switch {
		case t.is('{'):
			open++
		case t.is('}'):
			if open--; open < 0 {
				a.unclear(source, "contains a brace that ends a block")
				return
			}
		case t.is('('), t.is(')'), t.is('|'), t.is('<'), t.is('>'):
			a.unclear(source, "is a pattern of zsh that may execute code")
			return
		case t.is('=') && (i == 0 && len(atoms) > 1 || i > 0 && (atoms[i-1].is('=') || atoms[i-1].is(':'))):
			a.unclear(source, "is replaced by the path of a program")
			return
		case t.is('~') && i+1 < len(atoms) && atoms[i+1].is('['):
			a.unclear(source, "is a directory that a function names")
			return
		}
	}
}

// zshParam judges the parts of an expansion that only zsh has.
func (a *analyzer) zshParam(p *syntax.ParamExp, st *state) {
	if p.Flags != nil || p.GlobSubst != syntax.OptUnset || p.RcExpand != syntax.OptUnset {
		a.unclearNode(p, "has flags that may execute code")
	}
	for _, m := range p.Modifiers {
		if !strings.Contains(" h t r e l u q Q x ", " "+m.Value+" ") {
			a.unclearNode(p, "has a modifier that isn't understood")
		}
	}
	if p.NestedParam != nil {
		a.parts([]syntax.WordPart{p.NestedParam}, true, st)
	}
}
