package shell

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"mvdan.cc/sh/v3/syntax"
)

// scan is what the whole of a script says about its names. It comes before the analysis, because a loop or a function uses what a
// later line assigns.
type scan struct {
	a      *analyzer
	stack  []syntax.Node
	around []syntax.Node // those of the stack that nest

	assigned map[string]bool // assigned anywhere, also perhaps: any argument that's a name
	volatile map[string]bool // of these, in a loop, in a function's body or by an expansion
	exported map[string]bool // named in an export
	other    map[string]bool // assigned something else than a number
	arrays   map[string]bool // assigned (…)
	funcs    map[string]bool // functions' names
	unset    map[string]bool // names of unset that may be functions'

	allExport  bool // set -a
	unsetFuncs bool // unset -f
	discards   bool // bash may discard the rest of a line

	cd      bool // the script changes its directory
	cdLoop  bool // of these, in a loop, outside subshells
	cdFunc  bool // of these, in a function
	tooDeep bool
	heredoc map[int]int // by the end of the line with the redirection: where the next here-document begins
}

var (
	identifier = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	integer    = lazy.Regexp(`^-?(0|[1-9][0-9]{0,17})$`) // 08 is an error
	numbers    = lazy.Regexp(`^\{-?(0|[1-9][0-9]*)\.\.-?(0|[1-9][0-9]*)(\.\.-?[0-9]+)?\}$`)
)

func scanFile(a *analyzer, file *syntax.File) *scan {
	s := &scan{
		a: a, assigned: map[string]bool{}, volatile: map[string]bool{}, exported: map[string]bool{}, other: map[string]bool{},
		arrays: map[string]bool{}, funcs: map[string]bool{}, unset: map[string]bool{}, heredoc: map[int]int{},
	}
	syntax.Walk(file, s.visit)
	s.discard()
	return s
}

func (s *scan) visit(n syntax.Node) bool {
	if n == nil {
		last := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		if n := len(s.around); n > 0 && s.around[n-1] == last {
			s.around = s.around[:n-1]
		}
		return true
	}
	if nests(n) && !s.continues(n) {
		if len(s.around) == maxNesting {
			s.tooDeep = true
			return false
		}
		s.around = append(s.around, n)
	}
	s.stack = append(s.stack, n)
	s.discards = s.discards || s.mayDiscard(n)
	switch n := n.(type) {
	case *syntax.Comment:
		// The parser joins the line after such a comment to the line before it. Shells don't.
		if text := strings.TrimSuffix(n.Text, "\n"); strings.HasSuffix(text, `\`) {
			s.a.unclear("#"+text, "is a comment that ends in a backslash")
		}
	case *syntax.Word:
		// Within parentheses and case, the parser begins a comment at a # after quotes or an expansion. Shells continue the word.
		rest := s.a.src[min(int(n.End().Offset()), len(s.a.src)):]
		for strings.HasPrefix(rest, "\\\n") {
			rest = rest[2:]
		}
		if text := s.a.source(n); rest != "" && strings.Contains("<>&", rest[:1]) && strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
			s.a.unclear(text, "may be assigned a file descriptor") // {a[$(b)]}>c
		}
		if strings.HasPrefix(rest, "#") {
			s.a.unclear(s.a.source(n)+rest[:1], "is a word that the parser ends before #")
		}
	case *syntax.CmdSubst:
		s.backquotes(n)
	case *syntax.ExtGlob:
		if strings.ContainsAny(n.Pattern.Value, "$`'\"\\()<>;&\n") {
			s.a.unclearNode(n, "is a pattern with special characters")
		}
	case *syntax.Redirect:
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
			s.assignLate(strings.Trim(n.N.Value, "{}"), true)
		}
		s.hereDocument(n)
	case *syntax.FuncDecl:
		// The parser takes "f() { a; } | b" for a function with a pipeline as its body. Shells don't.
		if _, chain := n.Body.Cmd.(*syntax.BinaryCmd); chain || n.Body.Negated {
			s.a.unclearNode(n, "is a function with a body that isn't clear")
		}
		for _, name := range append(n.Names, n.Name) {
			if name != nil {
				s.funcs[name.Value] = true
			}
		}
	case *syntax.Assign:
		if call, prefix := s.stack[len(s.stack)-2].(*syntax.CallExpr); !prefix || !ownIFS(n.Name, s.command(call.Args)) {
			s.assignment(n)
		}
	case *syntax.ForClause:
		s.loop(n)
	case *syntax.CallExpr:
		s.call(n)
	case *syntax.DeclClause:
		s.declaration(n)
	case *syntax.CoprocClause:
		if n.Name != nil {
			s.assignLate(s.literal(n.Name), false)
			s.assignLate(s.literal(n.Name)+"_PID", true)
		}
	case *syntax.ParamExp:
		// The parser takes these for text. Shells execute them.
		if text := s.a.source(n); strings.Contains(text, "<(") || strings.Contains(text, ">(") || strings.Contains(text, "=(") {
			s.a.unclearNode(n, "is an expansion with a process substitution")
		}
		if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			s.assignLate(n.Param.Value, false)
		}
	case *syntax.BinaryArithm:
		if assigns(n.Op) {
			s.assignArith(n.X)
		}
	case *syntax.UnaryArithm:
		if n.Op == syntax.Inc || n.Op == syntax.Dec {
			s.assignArith(n.X)
		}
	}
	return true
}

// continues reports whether a node is an elif or else.
func (s *scan) continues(n syntax.Node) bool {
	if len(s.stack) == 0 {
		return false
	}
	parent, isIf := s.stack[len(s.stack)-1].(*syntax.IfClause)
	return isIf && syntax.Node(parent.Else) == n
}

// nests reports whether the analysis of a node contains that of others of its kind.
func nests(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Subshell, *syntax.Block, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause,
		*syntax.IfClause, *syntax.FuncDecl, *syntax.TimeClause, *syntax.CoprocClause, *syntax.ParamExp, *syntax.ArithmExp, *syntax.ParenArithm,
		*syntax.UnaryArithm, *syntax.ParenTest, *syntax.UnaryTest, *syntax.DblQuoted:
		return true
	case *syntax.BinaryArithm:
		return assigns(n.Op) || n.Op == syntax.TernQuest || n.Op == syntax.Pow
	}
	return false
}

func assigns(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn, syntax.AndAssgn, syntax.OrAssgn,
		syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn, syntax.AndBoolAssgn, syntax.OrBoolAssgn, syntax.XorBoolAssgn, syntax.PowAssgn:
		return true
	}
	return false
}

func (s *scan) assign(name string, number bool) {
	if !identifier().MatchString(name) {
		return
	}
	s.assigned[name] = true
	if !number {
		s.other[name] = true
	}
	if s.within(repeats) {
		s.volatile[name] = true
	}
}

func (s *scan) assignArith(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok {
		s.assignLate(s.literal(w), true)
	}
}

// assignLate is for assignments that the analysis doesn't meet in order.
func (s *scan) assignLate(name string, number bool) {
	s.assign(name, number)
	s.volatile[name] = true
}

func repeats(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.WhileClause, *syntax.ForClause, *syntax.FuncDecl:
		return true
	}
	return false
}

func (s *scan) within(is func(syntax.Node) bool) bool { return slices.ContainsFunc(s.around, is) }

func (s *scan) assignment(n *syntax.Assign) {
	if n.Name == nil || n.Naked {
		return
	}
	s.arrays[n.Name.Value] = s.arrays[n.Name.Value] || n.Array != nil || n.Index != nil
	number := n.Value == nil && n.Array == nil && !n.Append
	if n.Value != nil && n.Index == nil && !n.Append {
		number = s.number(n.Value)
	}
	s.assign(n.Name.Value, number)
}

// number reports whether a word is a number, whatever the variables in it are.
func (s *scan) number(w *syntax.Word) bool {
	if text := s.literal(w); text != "" || len(w.Parts) != 1 {
		return integer().MatchString(text)
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	switch part := part.(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.CmdSubst:
		return s.counts(part)
	case *syntax.ParamExp:
		return numericParam(part)
	}
	return false
}

// counts reports whether a command substitution is the number that wc prints of its input.
func (s *scan) counts(n *syntax.CmdSubst) bool {
	if len(n.Stmts) != 1 {
		return false
	}
	last := n.Stmts[0]
	for {
		pipe, ok := last.Cmd.(*syntax.BinaryCmd)
		if last.Negated || last.Background || ok && (pipe.Op != syntax.Pipe || len(last.Redirs) > 0) {
			return false
		}
		if !ok {
			break
		}
		last = pipe.Y
	}
	call, ok := last.Cmd.(*syntax.CallExpr)
	return ok && len(call.Assigns) == 0 && len(call.Args) == 2 && s.literal(call.Args[0]) == "wc" &&
		slices.Contains([]string{"-l", "-w", "-c", "-m"}, s.literal(call.Args[1])) &&
		!slices.ContainsFunc(last.Redirs, func(r *syntax.Redirect) bool { return r.Op != syntax.RdrIn || r.N != nil })
}

// numericParam reports whether an expansion is a number in any case.
func numericParam(p *syntax.ParamExp) bool {
	if p.Length {
		return true
	}
	if p.Param == nil || p.Excl || p.Flags != nil || p.Exp != nil || p.Slice != nil || p.Repl != nil || p.Index != nil || p.NestedParam != nil ||
		len(p.Modifiers) > 0 {
		return false
	}
	return len(p.Param.Value) == 1 && strings.Contains("?#$!", p.Param.Value)
}

func (s *scan) loop(n *syntax.ForClause) {
	it, ok := n.Loop.(*syntax.WordIter)
	if !ok {
		return
	}
	number := it.InPos.IsValid() && !n.Select
	for _, w := range it.Items {
		text := s.literal(w)
		number = number && (integer().MatchString(text) || s.a.dialect != POSIX && numbers().MatchString(s.a.source(w)))
	}
	s.assign(it.Name.Value, number)
}

func (s *scan) changesDir() {
	s.cd = true
	for _, n := range slices.Backward(s.around) {
		switch n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			return
		case *syntax.WhileClause, *syntax.ForClause:
			s.cdLoop = true
		case *syntax.FuncDecl:
			s.cdFunc = true
		}
	}
}

// literal returns the value of a word without expansions, or "".
func (s *scan) literal(w *syntax.Word) string {
	text, whole := s.head(w)
	if !whole {
		return ""
	}
	return text
}

// head returns how a word begins, and whether that's all of it.
func (s *scan) head(w *syntax.Word) (text string, whole bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(part.Value))
		case *syntax.SglQuoted:
			text := part.Value
			if part.Dollar {
				text, _ = decodeDollar(text)
			}
			b.WriteString(text)
		case *syntax.DblQuoted:
			for _, p := range part.Parts {
				lit, ok := p.(*syntax.Lit)
				if !ok {
					return b.String(), false
				}
				b.WriteString(unescapeQuoted(lit.Value, `"`))
			}
		default:
			return b.String(), false
		}
	}
	return b.String(), true
}

// backquotes requires that bash and dash, which end `…` at the first backquote without a backslash, whatever quotes are in between, find
// the end where the parser does.
func (s *scan) backquotes(n *syntax.CmdSubst) {
	if n.Backquotes && strings.ContainsAny(s.a.src[n.Left.Offset()+1:n.Right.Offset()], "`\\#") {
		s.a.unclearNode(n, "is a command substitution with special characters")
	}
}
