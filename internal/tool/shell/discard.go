package shell

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"mvdan.cc/sh/v3/syntax"
)

// After an error in an expansion or an assignment, bash discards the rest of the line and continues with the next one: what the line
// should have assigned isn't assigned. Where an error is possible, nothing is known that depends on an assignment, a function or cd.

// index matches an index and a length with which no error is possible.
var index = lazy.Regexp(`^[0-9@*]{1,9}$`)

// readOnly are variables that bash doesn't let a script assign.
var readOnly = lazy.Regexp(`^(E?UID|PPID|BASHOPTS|SHELLOPTS|BASH_VERSINFO)$`)

// mayDiscard reports whether a node may be an error with which bash discards the rest of the line.
func (s *scan) mayDiscard(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.BinaryArithm:
		switch n.Op {
		case syntax.Quo, syntax.Rem, syntax.Pow, syntax.QuoAssgn, syntax.RemAssgn, syntax.PowAssgn:
			return true
		}
	case *syntax.ParamExp:
		return n.Slice != nil && n.Slice.Length != nil && !index().MatchString(s.a.source(n.Slice.Length)) ||
			n.Index != nil && !index().MatchString(s.a.source(n.Index))
	case *syntax.Assign:
		return n.Index != nil && !index().MatchString(s.a.source(n.Index)) || n.Name != nil && !n.Naked && readOnly().MatchString(n.Name.Value)
	case *syntax.DeclClause:
		return n.Variant.Value == "readonly" || len(n.Args) > 0 && n.Args[0].Value != nil && strings.Contains(s.literal(n.Args[0].Value), "r")
	case *syntax.CallExpr:
		switch name, args := s.split(n.Args); name {
		case "readonly":
			return true
		case "declare", "typeset", "local":
			return len(args) > 0 && strings.HasPrefix(s.literal(args[0]), "-")
		}
	}
	return false
}

// discard makes unknown what a discarded line may have changed.
func (s *scan) discard() {
	if s.discards = s.discards && s.a.dialect != Zsh && strings.Contains(strings.TrimSpace(s.a.src), "\n"); !s.discards {
		return
	}
	for name := range s.assigned {
		s.volatile[name] = true
	}
	s.unsetFuncs = true
}
