package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// param evaluates a parameter expansion: $x, ${x:-word}.
func (a *analyzer) param(p *syntax.ParamExp, quoted bool, st *state) []atom {
	if quoted && p.Exp != nil && hasQuotes(p.Exp.Word) || quoted && p.Repl != nil && (hasQuotes(p.Repl.Orig) || hasQuotes(p.Repl.With)) {
		// Whether these quote depends on the operator, the shell and its version; the parser always lets them.
		a.unclearNode(p, "has quotes within quotes")
	}
	if atoms, ok := a.simpleParam(p, quoted, st); ok {
		return atoms
	}
	if numericParam(p) && p.Index == nil && p.Flags == nil && p.NestedParam == nil {
		return []atom{{part: &expansion{numeric: true, many: !quoted && !p.Length && p.Param.Value == "!"}}}
	}
	a.zshParam(p, st)
	many := !quoted || p.Param != nil && p.Param.Value == "@" || p.Names == syntax.NamesPrefixWords
	if p.Excl && p.Names == 0 && !isAll(p.Index) {
		a.unclearNode(p, "expands a variable that another one names")
	}
	if p.Index != nil {
		many = many || isWord(p.Index, "@")
		if !isAll(p.Index) {
			a.arith(p.Index, st)
		}
	}
	if p.Slice != nil {
		a.arith(p.Slice.Offset, st)
		a.arith(p.Slice.Length, st)
	}
	if p.Repl != nil {
		a.inner(p.Repl.Orig, quoted, st)
		a.inner(p.Repl.With, quoted, st)
	}
	if atoms, ok := a.defaultOf(p, quoted, st); ok {
		return atoms
	}
	if p.Exp != nil {
		many = a.operator(p, quoted, st) || many
	}
	return []atom{{part: &expansion{many: many, numeric: numericParam(p)}}}
}

// defaultOf evaluates ${x:-word} as the word where a.takes. The variable is one that nothing but the environment may have set, by a name
// which it hardly has.
func (a *analyzer) defaultOf(p *syntax.ParamExp, quoted bool, st *state) ([]atom, bool) {
	if p.Exp == nil || p.Exp.Op != syntax.DefaultUnset && p.Exp.Op != syntax.DefaultUnsetOrNull || p.Exp.Word == nil ||
		p.Param == nil || p.Index != nil || p.NestedParam != nil || p.Flags != nil || p.Excl || p.Length {
		return nil, false
	}
	if name := p.Param.Value; !identifier().MatchString(name) || a.scan.assigned[name] || a.inheritable(name) {
		return nil, false
	}
	if a.defaults++; !a.takes {
		return nil, false
	}
	atoms := a.parts(p.Exp.Word.Parts, quoted, st)
	splits := !quoted && slices.ContainsFunc(atoms, func(t atom) bool { return t.part == nil && !t.quoted && strings.IndexByte(" \t\n{", t.b) >= 0 })
	return atoms, !splits
}

// operator evaluates what follows the name in ${x:-word}, and reports whether it may become several words.
func (a *analyzer) operator(p *syntax.ParamExp, quoted bool, st *state) bool {
	switch p.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil {
			a.risky(p.Param.Value, unknownValue(p.Param.Value))
		}
	case syntax.OtherParamOps:
		if p.Exp.Word != nil && strings.Contains(a.source(p.Exp.Word), "P") {
			a.unclearNode(p, "is expanded like a prompt")
		}
		return false
	}
	return a.inner(p.Exp.Word, quoted, st)
}

func (a *analyzer) inner(w *syntax.Word, quoted bool, st *state) (many bool) {
	if w == nil {
		return false
	}
	return slices.ContainsFunc(a.parts(w.Parts, quoted, st), func(t atom) bool { return t.part != nil && t.part.many })
}

// simpleParam evaluates $x of a variable that the script assigned, HOME and PWD.
func (a *analyzer) simpleParam(p *syntax.ParamExp, quoted bool, st *state) ([]atom, bool) {
	if p.Param == nil || p.Flags != nil || p.Excl || p.Length || p.Width || p.IsSet || p.Split+p.GlobSubst+p.RcExpand != 0 || p.NestedParam != nil ||
		p.Index != nil || len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.Exp != nil {
		return nil, false
	}
	name := p.Param.Value
	v, ok := st.lookup(name)
	switch {
	case name == "HOME" && !a.scan.assigned[name] && !ok:
		return []atom{{part: &expansion{home: true}}}, true
	case name == "PWD" && !a.scan.assigned[name] && !ok && len(st.dirs) == 1:
		v.value.Word = st.dirs[0]
		if !v.value.Home && !strings.HasPrefix(v.value.Text, "/") {
			return nil, false
		}
	case !ok || a.scan.volatile[name]:
		return numberAtoms(quoted), a.isNumber(name)
	}
	if !v.value.Known {
		return numberAtoms(quoted), v.value.numeric || a.isNumber(name)
	}
	return a.substitute(v.value, quoted)
}

// numberAtoms is the value of a variable that is a number, or empty.
func numberAtoms(quoted bool) []atom { return []atom{{part: &expansion{numeric: true, many: !quoted}}} }

// substitute returns the atoms of a known value, unless it would be split or matched against files.
func (a *analyzer) substitute(v value, quoted bool) ([]atom, bool) {
	a.expanded += len(v.Text)
	if a.expanded > maxExpanded || !quoted && a.splits(v.Text) {
		return nil, false
	}
	if !v.Home {
		return appendQuoted([]atom{mark}, v.Text), true
	}
	return appendQuoted([]atom{{part: &expansion{home: true}}}, v.Text[1:]), true
}

func (a *analyzer) splits(text string) bool {
	return text == "" || a.scan.assigned["IFS"] || strings.ContainsAny(text, " \t\n*?[]\\()<>|^#~{}=")
}

func isAll(x syntax.ArithmExpr) bool { return isWord(x, "@") || isWord(x, "*") }

func isWord(x syntax.ArithmExpr, text string) bool {
	w, ok := x.(*syntax.Word)
	return ok && w.Lit() == text
}

// hasQuotes reports whether a word contains quotes of its own, not those within a command substitution.
func hasQuotes(w *syntax.Word) (found bool) {
	if w == nil {
		return false
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			found = true
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		}
		return !found
	})
	return found
}
