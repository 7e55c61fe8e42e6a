package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of one condition.
type mutant struct {
	pos      token.Position
	old, new string
	tests    []*test // that reach it
	reached  bool
	killed   bool
}

// testsOf returns the tests of one suite that reach the mutant.
func (m *mutant) testsOf(s *suite) (tests []*test) {
	for _, t := range m.tests {
		if t.suite == s {
			tests = append(tests, t)
		}
	}
	return tests
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s -> %s", m.pos.Filename, m.pos.Line, m.pos.Column, m.old, m.new)
}

// goPackage is a package with its types, without tests.
type goPackage struct {
	folder string
	set    *token.FileSet
	files  []*ast.File
	name   string
	info   *types.Info
}

// load parses the files of a package for this platform.
func load(folder string) (*goPackage, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Name,GoFiles,Export", "./"+folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type listed struct {
		ImportPath, Dir, Name, Export string
		GoFiles                       []string
	}
	exports := map[string]string{}
	var last listed // the package itself follows its dependencies
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath], last = p.Export, p
	}
	p := &goPackage{folder: folder, set: token.NewFileSet(), name: last.Name, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	for _, name := range last.GoFiles {
		file, err := parser.ParseFile(p.set, filepath.Join(folder, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, file)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(p.set, "gc", lookup)}
	_, err = config.Check(last.ImportPath, p.set, p.files, p.info)
	return p, err
}

//go:embed active.go.txt
var active string

// mutate returns all mutants of files, of all files if none is named, and the mutated files by path.
func (p *goPackage) mutate(names []string) (all []*mutant, overlay map[string]string, err error) {
	overlay = map[string]string{}
	for _, file := range p.files {
		path := p.set.File(file.Pos()).Name()
		if ast.IsGenerated(file) || names != nil && !slices.Contains(names, filepath.Base(path)) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		w := &rewriter{goPackage: p, text: string(text), all: all, edits: map[int]edit{}}
		w.walk(file)
		all = w.all
		overlay[path] = w.String()
	}
	helper := strings.NewReplacer("PACKAGE", p.name, "MUTANTS", strconv.Itoa(len(all))).Replace(active)
	overlay[filepath.Join(p.folder, "zz_mutant_active.go")] = helper
	return all, overlay, nil
}

// rewriter inserts the mutants of one file into its text.
type rewriter struct {
	*goPackage
	text  string
	all   []*mutant
	edits map[int]edit // by offset
}

// edit is the text inserted at an offset: ends of nodes, then beginnings. A comma may replace the operator there.
type edit struct {
	end, begin string
	comma      int // length of the operator, or 0
}

func (w *rewriter) String() string {
	var out strings.Builder
	for i := 0; i <= len(w.text); i++ {
		e := w.edits[i]
		out.WriteString(e.end + e.begin)
		if e.comma > 0 {
			out.WriteByte(',')
			i += e.comma - 1
		} else if i < len(w.text) {
			out.WriteByte(w.text[i])
		}
	}
	return out.String()
}

func (w *rewriter) offset(pos token.Pos) int { return w.set.Position(pos).Offset }

func (w *rewriter) source(from, to token.Pos) string { return w.text[w.offset(from):w.offset(to)] }

// add makes a mutant at a position, and returns its number.
func (w *rewriter) add(pos token.Pos, old, new string) int {
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	w.all = append(w.all, &mutant{pos: w.set.Position(pos), old: flat(old), new: flat(new)})
	return len(w.all)
}

// wrap inserts text around a node. A node is wrapped before its children, and the closing texts are inserted in reverse order.
func (w *rewriter) wrap(n ast.Node, before, after string) (end func()) {
	from, to := w.offset(n.Pos()), w.offset(n.End())
	e := w.edits[from]
	e.begin += before
	w.edits[from] = e
	return func() {
		e := w.edits[to]
		e.end += after
		w.edits[to] = e
	}
}

// walk mutates a node's children.
func (w *rewriter) walk(root ast.Node) {
	var stack []func()
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			stack[len(stack)-1]()
			stack = stack[:len(stack)-1]
			return true
		}
		if x, ok := n.(ast.Expr); ok && w.info.Types[x].Value != nil {
			return false // the language requires constants in some places
		}
		ends := w.visit(n)
		stack = append(stack, func() {
			for _, end := range slices.Backward(ends) {
				end()
			}
		})
		return true
	})
}

func (w *rewriter) visit(n ast.Node) (ends []func()) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return w.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !w.isComparison(n.X) && w.isBool(n) {
			ends = append(ends, w.negate(n, w.source(n.X.Pos(), n.X.End())))
		}
	case *ast.IfStmt:
		ends = w.condition(ends, n.Cond)
	case *ast.ForStmt:
		ends = w.condition(ends, n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				for _, c := range clause.(*ast.CaseClause).List {
					ends = w.condition(ends, c)
				}
			}
		}
	case *ast.BlockStmt:
		ends = w.statements(n.List)
	case *ast.CaseClause:
		ends = w.statements(n.Body)
	case *ast.CommClause:
		ends = w.statements(n.Body)
	}
	return ends
}

// condition negates a condition without an operator. Operators have mutants of their own.
func (w *rewriter) condition(ends []func(), x ast.Expr) []func() {
	switch c := ast.Unparen(x).(type) {
	case nil, *ast.BinaryExpr, *ast.UnaryExpr:
	default:
		if w.isBool(c) && w.info.Types[c].Value == nil {
			ends = append(ends, w.negate(c, "!"+w.source(c.Pos(), c.End())))
		}
	}
	return ends
}

// negate makes a mutant with the negation of a condition.
func (w *rewriter) negate(x ast.Expr, negated string) (end func()) {
	id := w.add(x.Pos(), w.source(x.Pos(), x.End()), negated)
	return w.wrap(x, "((", fmt.Sprintf(") != xMutant(%d))", id))
}

func (w *rewriter) isBool(x ast.Expr) bool {
	t := w.info.Types[x].Type
	return types.Identical(t, types.Typ[types.Bool]) || types.Identical(t, types.Typ[types.UntypedBool])
}

func (w *rewriter) isComparison(x ast.Expr) bool {
	b, ok := ast.Unparen(x).(*ast.BinaryExpr)
	return ok && opposite[b.Op] != 0 && b.Op != token.LAND && b.Op != token.LOR
}

// opposite maps comparisons and logical operators to those of their mutants.
var opposite = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

// helped maps operators to functions of active.go.txt, which replace them, and to the mutants' operators.
var helped = map[token.Token]struct {
	function string
	to       token.Token
}{
	token.LSS: {"xMutantLess", token.LEQ}, token.LEQ: {"xMutantLessEqual", token.LSS},
	token.GTR: {"xMutantGreater", token.GEQ}, token.GEQ: {"xMutantGreaterEqual", token.GTR},
	token.ADD: {"xMutantPlus", token.SUB}, token.SUB: {"xMutantMinus", token.ADD},
}

func (w *rewriter) binary(n *ast.BinaryExpr) (ends []func()) {
	change := func(to token.Token) int {
		left, right := w.source(n.Pos(), n.OpPos), w.source(n.OpPos+token.Pos(len(n.Op.String())), n.End())
		return w.add(n.OpPos, left+n.Op.String()+right, left+to.String()+right)
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		if !w.isBool(n) || !w.isBool(n.X) || !w.isBool(n.Y) {
			return nil
		}
		// With both sides and the whole negated, "and" is "or", and evaluates its right side when "or" does.
		m := fmt.Sprintf(" != xMutant(%d))", change(opposite[n.Op]))
		ends = append(ends, w.wrap(n, "((", ")"+m), w.wrap(n.X, "((", ")"+m), w.wrap(n.Y, "((", ")"+m))
		return w.condition(w.condition(ends, n.X), n.Y)
	}
	if to := opposite[n.Op]; to != 0 {
		ends = append(ends, w.wrap(n, "((", fmt.Sprintf(") != xMutant(%d))", change(to))))
	}
	h := helped[n.Op]
	basic, ok := w.info.Types[n.X].Type.Underlying().(*types.Basic)
	if h.function == "" || (n.Op == token.ADD || n.Op == token.SUB) && (!ok || basic.Info()&(types.IsInteger|types.IsFloat) == 0) {
		return ends
	}
	ends = append(ends, w.wrap(n, fmt.Sprintf("%s(%d, ", h.function, change(h.to)), ")"))
	op := w.edits[w.offset(n.OpPos)]
	op.comma = len(n.Op.String())
	w.edits[w.offset(n.OpPos)] = op
	return ends
}

// stepped maps the operators of statements that count up or down to those of their mutants.
var stepped = map[token.Token]token.Token{
	token.INC: token.DEC, token.DEC: token.INC, token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
}

// statements mutates statements that count up or down.
func (w *rewriter) statements(list []ast.Stmt) (ends []func()) {
	for _, s := range list {
		var x ast.Expr
		var op token.Token
		var at token.Pos
		switch s := s.(type) {
		case *ast.IncDecStmt:
			x, op, at = s.X, s.Tok, s.TokPos
		case *ast.AssignStmt:
			x, op, at = s.Lhs[0], s.Tok, s.TokPos
		default:
			continue
		}
		basic, ok := w.info.Types[x].Type.(*types.Basic)
		if stepped[op] == 0 || !ok || basic.Info()&(types.IsInteger|types.IsFloat) == 0 {
			continue
		}
		left, right := w.source(s.Pos(), at), w.source(at+token.Pos(len(op.String())), s.End())
		changed := left + stepped[op].String() + right
		id := w.add(at, left+op.String()+right, changed)
		ends = append(ends, w.wrap(s, fmt.Sprintf("if xMutant(%d) { %s } else { ", id, strings.Join(strings.Fields(changed), " ")), " }"))
	}
	return ends
}
