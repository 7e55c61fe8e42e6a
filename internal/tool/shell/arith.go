package shell

import (
	"github.com/toolguard/toolguard/internal/lazy"
	"mvdan.cc/sh/v3/syntax"
)

var constant = lazy.Regexp(`^([1-9][0-9]*|0[0-7]*|0[xX][0-9a-fA-F]+)$`)

// arith judges an arithmetic expression. Shells evaluate the value of a variable as an expression again, with the commands in its
// subscripts, so that a value must be a number.
func (a *analyzer) arith(x syntax.ArithmExpr, st *state) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		a.arithWord(x, st)
	case *syntax.ParenArithm:
		a.arith(x.X, st)
	case *syntax.UnaryArithm:
		a.arith(x.X, st)
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			a.arithAssign(x.X)
		}
	case *syntax.BinaryArithm:
		if x.Op != syntax.Assgn {
			a.arith(x.X, st)
		}
		a.arith(x.Y, st)
		if assigns(x.Op) {
			a.arithAssign(x.X)
		}
	default:
		a.unclearNode(x, "is arithmetic that isn't understood")
	}
}

func (a *analyzer) arithWord(w *syntax.Word, st *state) {
	text := w.Lit()
	switch {
	case constant().MatchString(text):
		return
	case identifier().MatchString(text):
		if !a.numberIn(text, st) {
			a.unclear(text, "is evaluated as arithmetic, and isn't known")
		}
		return
	}
	v := a.finish(a.parts(w.Parts, true, st), a.source(w), quotedPart)
	if len(w.Parts) != 1 || !isNumeric(v) {
		a.unclearNode(w, "is evaluated as arithmetic, and isn't known")
	}
}

// arithAssign judges the name that arithmetic assigns a number.
func (a *analyzer) arithAssign(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	if !ok || !identifier().MatchString(w.Lit()) {
		a.unclearNode(x, "is assigned by arithmetic")
		return
	}
	v := unknownValue(w.Lit())
	v.numeric = true
	a.risky(w.Lit(), v)
}

func isNumeric(v value) bool { return v.numeric || v.Known && integer().MatchString(v.Text) }

// isNumber reports whether a variable has numbers alone as values.
func (a *analyzer) isNumber(name string) bool { return a.scan.assigned[name] && !a.scan.other[name] }

func (a *analyzer) numberIn(name string, st *state) bool {
	v, ok := st.lookup(name)
	return ok && isNumeric(v.value) && !a.scan.volatile[name] || a.isNumber(name)
}
