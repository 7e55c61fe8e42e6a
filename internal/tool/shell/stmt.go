package shell

import (
	"mvdan.cc/sh/v3/syntax"

	"github.com/toolguard/toolguard/internal/tool/program"
)

// list analyses statements in their order. It returns the states after the last one succeeded and failed.
func (a *analyzer) list(stmts []*syntax.Stmt, st *state) (ok, fail *state) {
	ok, fail = st, st
	for _, s := range stmts {
		st = a.after(st, ok, fail)
		ok, fail = a.stmt(s, st)
	}
	return ok, fail
}

// after joins the two outcomes of what began in a state. What follows an exit is analysed as if it ran.
func (a *analyzer) after(st, ok, fail *state) *state {
	if joined := a.join(ok, fail); joined != nil {
		return joined
	}
	return st
}

func (a *analyzer) stmt(s *syntax.Stmt, st *state) (ok, fail *state) {
	switch {
	case s.Background, s.Coprocess, s.Disown:
		ok, fail = a.command(s, st)
		if _, chain := s.Cmd.(*syntax.BinaryCmd); chain && a.dialect == Zsh { // zsh 5.9 runs the first command of a chain itself
			st = a.join(st, a.join(ok, fail))
		}
		return st, st
	case s.Negated:
		fail, ok = a.command(s, st)
		return ok, fail
	}
	return a.command(s, st)
}

// command analyses a command with its redirections.
func (a *analyzer) command(s *syntax.Stmt, st *state) (ok, fail *state) {
	if call, simple := s.Cmd.(*syntax.CallExpr); simple {
		ok, fail = a.call(call, st)
		a.redirects(s.Redirs, st)
		return ok, a.failed(s, st, fail)
	}
	a.redirects(s.Redirs, st)
	if s.Cmd == nil {
		if a.dialect == Zsh {
			a.unclearNode(s, "runs $NULLCMD in zsh")
		}
		return st, st
	}
	ok, fail = a.compound(s.Cmd, st)
	return ok, a.failed(s, st, fail)
}

// failed returns the state after a command that failed, perhaps because of a redirection: then it did nothing.
func (a *analyzer) failed(s *syntax.Stmt, before, fail *state) *state {
	if len(s.Redirs) == 0 {
		return fail
	}
	return a.join(before, fail)
}

func (a *analyzer) compound(cmd syntax.Command, st *state) (ok, fail *state) {
	switch cmd := cmd.(type) {
	case *syntax.BinaryCmd:
		return a.binary(cmd, st)
	case *syntax.Block:
		return a.list(cmd.Stmts, st)
	case *syntax.Subshell:
		a.list(cmd.Stmts, st)
	case *syntax.IfClause:
		return a.ifClause(cmd, st)
	case *syntax.WhileClause:
		st = a.loopState(st)
		condOK, condFail := a.list(cmd.Cond, st)
		if cmd.Until {
			condOK, condFail = condFail, condOK
		}
		bodyOK, bodyFail := a.list(cmd.Do, a.after(st, condOK, nil))
		st = a.join(a.join(st, condFail), a.join(bodyOK, bodyFail))
	case *syntax.ForClause:
		st = a.forClause(cmd, a.loopState(st))
	case *syntax.CaseClause:
		st = a.caseClause(cmd, st)
	case *syntax.FuncDecl:
		st = a.function(cmd, st)
	case *syntax.ArithmCmd:
		a.arith(cmd.X, st)
	case *syntax.LetClause:
		for _, x := range cmd.Exprs {
			a.arith(x, st)
		}
	case *syntax.TestClause:
		a.test(cmd.X, st)
	case *syntax.DeclClause:
		st = a.declare(cmd, st)
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			return a.stmt(cmd.Stmt, st)
		}
	case *syntax.CoprocClause:
		a.coproc(cmd, st)
	default:
		a.unclearNode(cmd, "isn't understood")
	}
	return st, st
}

// binary analyses a chain of && and ||, or a pipeline, from the left without recursion.
func (a *analyzer) binary(cmd *syntax.BinaryCmd, st *state) (ok, fail *state) {
	chain := []*syntax.BinaryCmd{cmd}
	for {
		next, more := cmd.X.Cmd.(*syntax.BinaryCmd)
		if !more || cmd.X.Negated || len(cmd.X.Redirs) > 0 || cmd.X.Background {
			break
		}
		cmd = next
		chain = append(chain, cmd)
	}
	ok, fail = a.stmt(cmd.X, st)
	for i := len(chain) - 1; i >= 0; i-- {
		switch c := chain[i]; c.Op {
		case syntax.AndStmt:
			ok2, fail2 := a.reached(c.Y, ok, st)
			ok, fail = ok2, a.join(fail, fail2)
		case syntax.OrStmt:
			ok2, fail2 := a.reached(c.Y, fail, st)
			ok, fail = a.join(ok, ok2), fail2
		default: // a pipeline: each part in a subshell, in zsh except the last
			ok, fail = a.stmt(c.Y, st)
			if a.dialect != Zsh {
				ok, fail = st, st
			}
		}
	}
	return ok, fail
}

// reached analyses a statement that runs in a state, or in none: then it's analysed as if it ran, without consequences.
func (a *analyzer) reached(s *syntax.Stmt, st, otherwise *state) (ok, fail *state) {
	if st == nil {
		a.stmt(s, otherwise)
		return nil, nil
	}
	return a.stmt(s, st)
}

func (a *analyzer) ifClause(clause *syntax.IfClause, st *state) (ok, fail *state) {
	for ; clause != nil; clause = clause.Else {
		if len(clause.Cond) == 0 { // else
			ok2, fail2 := a.list(clause.Then, st)
			return a.join(ok, ok2), a.join(fail, fail2)
		}
		condOK, condFail := a.list(clause.Cond, st)
		ok2, fail2 := a.list(clause.Then, a.after(st, condOK, nil))
		ok, fail = a.join(ok, ok2), a.join(fail, fail2)
		st = a.after(st, nil, condFail)
	}
	return a.join(ok, st), fail
}

// loopState is the state at the beginning of any iteration.
func (a *analyzer) loopState(st *state) *state {
	if a.scan.cdLoop {
		return st.in(unknownDir)
	}
	return st
}

func (a *analyzer) forClause(clause *syntax.ForClause, st *state) *state {
	switch loop := clause.Loop.(type) {
	case *syntax.WordIter:
		a.words(loop.Items, st)
		v := unknownValue(loop.Name.Value)
		v.numeric = a.isNumber(loop.Name.Value)
		st = a.assign(st, loop.Name.Value, v, false)
		if clause.Select {
			st = a.assign(st, "REPLY", unknownValue("REPLY"), false)
		}
	case *syntax.CStyleLoop:
		a.arith(loop.Init, st)
		a.arith(loop.Cond, st)
		a.arith(loop.Post, st)
	}
	ok, fail := a.list(clause.Do, st)
	return a.join(st, a.join(ok, fail))
}

func (a *analyzer) caseClause(clause *syntax.CaseClause, st *state) *state {
	a.one(clause.Word, st)
	before, start := st, st
	for _, item := range clause.Items {
		for _, pattern := range item.Patterns {
			a.one(pattern, before)
		}
		ok, fail := a.list(item.Stmts, start)
		st = a.join(st, a.join(ok, fail))
		if start = before; item.Op != syntax.Break { // ;& continues in the next item
			start = st
		}
	}
	return st
}

func (a *analyzer) function(f *syntax.FuncDecl, st *state) *state {
	a.mutates = true
	for _, name := range append(f.Names, f.Name) {
		switch {
		case name == nil:
		case !functionName().MatchString(name.Value):
			a.unclear(name.Value, "is the name of a function")
		case name.Value == "wc": // scan.counts
			a.unclear(name.Value, "is a function that replaces a program")
		case a.isBuiltin(name.Value):
			a.unclear(name.Value, "is a function that replaces a builtin command")
		default:
			st = a.set(st, variable{functionPrefix + name.Value, literal(""), false})
		}
	}
	a.stmt(f.Body, a.functionState())
	return st
}

func (a *analyzer) coproc(c *syntax.CoprocClause, st *state) {
	if c.Name != nil {
		switch c.Stmt.Cmd.(type) {
		case *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause:
		default: // to bash, the name is that of a program
			a.unclearNode(c, "is a coprocess that isn't understood")
		}
		name := a.one(c.Name, st)
		if !name.Known || !identifier().MatchString(name.Text) {
			a.unclear(name.Text, "is the name of a coprocess")
		} else {
			a.risky(name.Text, unknownValue(name.Text))
		}
	}
	a.stmt(c.Stmt, st)
}

// emit adds a call, once for each directory that may be the current one.
func (a *analyzer) emit(argv []value, prefix []program.Variable, st *state) {
	words := make([]program.Word, len(argv))
	for i, v := range argv {
		words[i] = v.Word
	}
	for _, dir := range st.dirs {
		a.out.Calls = append(a.out.Calls, program.Call{Argv: words, Env: append(st.env[:len(st.env):len(st.env)], prefix...), Dir: dir})
	}
}
