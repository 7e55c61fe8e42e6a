package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// test analyses [[ … ]].
func (a *analyzer) test(x syntax.TestExpr, st *state) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		a.one(x, st)
	case *syntax.ParenTest:
		a.test(x.X, st)
	case *syntax.UnaryTest:
		a.unaryTest(x, st)
	case *syntax.BinaryTest:
		a.binaryTest(x, st)
	}
}

func (a *analyzer) unaryTest(x *syntax.UnaryTest, st *state) {
	w, isWord := x.X.(*syntax.Word)
	if !isWord {
		a.test(x.X, st)
		return
	}
	v := a.one(w, st)
	if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
		a.variableTest(v)
	}
	if x.Op == syntax.TsFdTerm && !isNumeric(v) {
		a.unclear(v.Text, "is evaluated as arithmetic, and isn't known")
	}
}

// variableTest judges test -v NAME, which evaluates a subscript in the name.
func (a *analyzer) variableTest(v value) {
	if !v.Known || !identifier().MatchString(v.Text) {
		a.unclear(v.Text, "is the name of a variable, and isn't known")
	}
}

func (a *analyzer) binaryTest(x *syntax.BinaryTest, st *state) {
	for ; x.Op == syntax.AndTest || x.Op == syntax.OrTest; x = x.Y.(*syntax.BinaryTest) {
		a.test(x.X, st)
		if _, more := x.Y.(*syntax.BinaryTest); !more {
			a.test(x.Y, st)
			return
		}
	}
	for _, operand := range []syntax.TestExpr{x.X, x.Y} {
		w, ok := operand.(*syntax.Word)
		if !ok {
			a.test(operand, st)
			continue
		}
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			a.arithOperand(a.one(w, st))
		case syntax.TsReMatch:
			a.regexp(w, st)
		default:
			a.one(w, st)
		}
	}
}

func (a *analyzer) arithOperand(v value) {
	if !isNumeric(v) && !(v.Known && a.isNumber(v.Text)) {
		a.unclear(v.Text, "is evaluated as arithmetic, and isn't known")
	}
}

// regexp analyses an operand of =~. Where a regular expression with unquoted spaces or operators ends depends on the shell.
func (a *analyzer) regexp(w *syntax.Word, st *state) {
	a.one(w, st)
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok && strings.ContainsAny(lit.Value, " \t\n;&<>#") {
			a.unclearNode(w, "is a regular expression with special characters")
		}
	}
}

const (
	unaryTests  = " -a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -n -z -o "
	binaryTests = " = == != < > =~ -eq -ne -lt -le -gt -ge -nt -ot -ef "
)

// testBuiltin analyses test and [. A word that isn't known may become the operator -v, which evaluates a subscript, so that the form of
// the whole must be known.
func testBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	args := c.args
	if n := len(args); c.name == "[" && n > 0 && args[n-1].Known && args[n-1].Text == "]" {
		args = args[:n-1]
	}
	if !a.testForm(args) {
		a.unclear(c.text(), "is a test that isn't understood")
	}
	return c.st, c.st
}

func (a *analyzer) testForm(args []value) bool {
	vanishing := slices.ContainsFunc(args, func(v value) bool { return v.Many })
	for _, v := range args {
		if v.Many && !v.numeric || vanishing && strings.Contains(v.Text, "[") {
			return false
		}
	}
	for len(args) > 0 {
		for len(args) > 1 && isOperator(args[0], " ! ( ") {
			args = args[1:]
		}
		n := 1
		switch {
		case len(args) > 2 && isOperator(args[1], binaryTests):
			n = 3
			if a.dialect == Zsh && strings.HasPrefix(args[1].Text, "-") && args[1].Text[2] != 't' && args[1].Text != "-ef" &&
				!(isNumeric(args[0]) && isNumeric(args[2])) {
				return false
			}
		case len(args) > 1 && isOperator(args[0], unaryTests):
			n = 2
		case len(args) > 1 && isOperator(args[0], " -v "):
			if n = 2; !args[1].Known || !identifier().MatchString(args[1].Text) {
				return false
			}
		case !args[0].Known && len(args) > 1 && !isOperator(args[1], " -a -o ) "):
			return false
		}
		args = args[n:]
		for len(args) > 0 && isOperator(args[0], " ) ") {
			args = args[1:]
		}
		if len(args) == 0 {
			return true
		}
		if !isOperator(args[0], " -a -o ") {
			return false
		}
		args = args[1:]
	}
	return true
}

func isOperator(v value, operators string) bool {
	return v.Known && !v.Home && v.Text != "" && !strings.Contains(v.Text, " ") && strings.Contains(operators, " "+v.Text+" ")
}
