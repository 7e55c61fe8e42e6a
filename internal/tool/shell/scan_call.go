package shell

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"mvdan.cc/sh/v3/syntax"
)

// The commands that assign a variable which an argument names, and those that run another builtin. What these commands do counts from
// the script's beginning, so that the scan must see them and their names.
const (
	exporters = " export declare typeset local readonly integer float "
	wrappers  = " command builtin noglob nocorrect - "
)

var scanned = lazy.Set(exporters + "read getopts mapfile readarray unset cd chdir pushd popd")

// command returns the name of the builtin or program that a command runs if the text has it, or "".
func (s *scan) command(args []*syntax.Word) string {
	name, _ := s.split(args)
	return name
}

// split returns the name of what a command runs and its arguments, without command, builtin and their options.
func (s *scan) split(args []*syntax.Word) (name string, rest []*syntax.Word) {
	for i, w := range args {
		name = s.literal(w)
		if name == "" || braced(w) {
			return "", args[i+1:]
		}
		if i > 0 && name[0] == '-' || strings.Contains(wrappers, " "+name+" ") {
			continue
		}
		return name, args[i+1:]
	}
	return "", nil
}

// ownIFS reports whether an assignment is the IFS of read alone.
func ownIFS(name *syntax.Lit, command string) bool {
	return name != nil && name.Value == "IFS" && command == "read"
}

// braced reports whether a word has a brace that isn't quoted.
func braced(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(part syntax.WordPart) bool {
		lit, ok := part.(*syntax.Lit)
		return ok && strings.Contains(lit.Value, "{")
	})
}

// call notes what a command assigns.
func (s *scan) call(n *syntax.CallExpr) {
	name, args := s.split(n.Args)
	for _, as := range n.Assigns {
		if len(n.Args) > 0 && as.Name != nil && !ownIFS(as.Name, name) { // a function gets these exported
			s.exported[as.Name.Value] = true
		}
	}
	for _, w := range n.Args {
		switch s.literal(w) {
		case "cd", "pushd", "popd", "chdir":
			s.changesDir()
		}
	}
	switch {
	case strings.Contains(exporters, " "+name+" "):
		for _, w := range args {
			s.exports(w, name != "export")
		}
	case name == "read", name == "mapfile", name == "readarray":
		if i := slices.IndexFunc(args, braced); i >= 0 {
			s.a.unclearNode(args[i], "assigns a variable that isn't known")
		}
		if name == "read" {
			s.reads(args, "adinNptu", "a")
			break
		}
		for _, w := range s.reads(args, "dnOsuCc", "") {
			s.arrays[s.literal(w)] = true
		}
	case name == "unset":
		s.unsets(args)
	case name == "printf":
		s.printf(args)
	case name == "getopts":
		s.getopts(args)
	case name == "set":
		s.set(args)
	}
}

// exports counts the name in an argument of export and others as assigned. lasting is for commands after which its value may be another
// one than assigned.
func (s *scan) exports(w *syntax.Word, lasting bool) {
	text, whole := s.head(w)
	if whole && text != "" && (text[0] == '-' || text[0] == '+') {
		return
	}
	end := strings.IndexAny(text, "=[+")
	if end >= 0 {
		text = text[:end]
	} else if !whole {
		text = ""
	}
	if s.name(w, text) {
		s.exported[text] = true
		s.volatile[text] = s.volatile[text] || lasting
	}
}

// name counts a name in a word as assigned. It must be in the text: a loop or a function assigns it before the analysis meets it.
func (s *scan) name(w *syntax.Word, name string) bool {
	if !identifier().MatchString(name) {
		s.a.unclearNode(w, "assigns a variable that isn't known")
		return false
	}
	s.assign(name, false)
	return true
}

// reads counts the operands of read and mapfile as assigned, or the value of the option array. with are the options that take a value.
func (s *scan) reads(args []*syntax.Word, with, array string) (operands []*syntax.Word) {
	for i := 0; i < len(args); i++ {
		text, whole := s.head(args[i])
		if len(text) < 2 || text[0] != '-' || !whole {
			operands = args[i:]
			break
		}
		if text == "--" {
			operands = args[i+1:]
			break
		}
		switch at := strings.IndexAny(text, with); {
		case at < 0:
		case string(text[at]) != array:
			if at+1 == len(text) {
				i++
			}
		case at+1 < len(text):
			s.array(args[i], text[at+1:])
		case i+1 < len(args):
			i++
			s.array(args[i], s.literal(args[i]))
		}
	}
	for _, w := range operands {
		text := s.literal(w)
		if s.a.dialect == Zsh {
			text, _, _ = strings.Cut(text, "?") // and a prompt
		}
		s.name(w, text)
	}
	return operands
}

func (s *scan) array(w *syntax.Word, name string) {
	s.name(w, name)
	s.arrays[name] = true
}

func (s *scan) unsets(args []*syntax.Word) {
	functions := true
	for _, w := range args {
		text := s.literal(w)
		switch {
		case strings.HasPrefix(text, "-"):
			s.unsetFuncs = s.unsetFuncs || strings.Contains(text, "f")
			functions = functions && !strings.Contains(text, "v")
		case s.unsetFuncs && functionName().MatchString(text):
			s.assign(text, false)
		case s.name(w, text) && functions:
			s.unset[text] = true
		}
	}
}

// volatileFuncs reports whether a function may no longer be defined wherever its name is used.
func (s *scan) volatileFuncs() bool {
	if s.unsetFuncs {
		return true
	}
	for name := range s.unset {
		if s.funcs[name] {
			return true
		}
	}
	return false
}

// printf counts the name of printf -v as assigned.
func (s *scan) printf(args []*syntax.Word) {
	if len(args) == 0 {
		return
	}
	name, assigns := strings.CutPrefix(s.literal(args[0]), "-v")
	if assigns && name == "" && len(args) > 1 {
		name = s.literal(args[1])
	}
	if assigns {
		s.assignLate(name, false)
	}
}

// getopts counts the name of its second argument as assigned.
func (s *scan) getopts(args []*syntax.Word) {
	switch {
	case len(args) < 2:
	case braced(args[0]), strings.HasPrefix(s.literal(args[0]), "-"):
		s.a.unclearNode(args[0], "assigns a variable that isn't known")
	default:
		s.name(args[1], s.literal(args[1]))
	}
}

func (s *scan) set(args []*syntax.Word) {
	for _, w := range args {
		text := s.literal(w)
		s.allExport = s.allExport || text == "allexport" || strings.HasPrefix(text, "-") && strings.Contains(text, "a")
	}
}

// declaration notes the names of declare and others. The value of a variable that may be read-only, or local, isn't known.
func (s *scan) declaration(n *syntax.DeclClause) {
	for _, arg := range n.Args {
		switch {
		case arg.Name != nil:
			s.exported[arg.Name.Value] = true
			if n.Variant.Value != "export" {
				s.volatile[arg.Name.Value] = true
			}
		case arg.Value != nil:
			s.exports(arg.Value, n.Variant.Value != "export")
		}
	}
}
