package program

import (
	"regexp"
	"slices"

	"github.com/toolguard/toolguard/internal/lazy"
)

// makeAssignment is an assignment on make's command line. Make expands any other name, and executes the value after "!=".
var makeAssignment = lazy.Regexp(`^([A-Za-z0-9_][A-Za-z0-9_.-]*)[ \t]*[:+?]{0,3}=[ \t]*(.*)$`)

// applyMakeVariable is for make's NAME=VALUE, which recipes expand in shell commands.
func applyMakeVariable(in *inspection, w, shown Word) {
	m := makeAssignment().FindStringSubmatch(w.Text)
	switch {
	case !w.Known || m == nil || !isPlain(m[2]):
	case makeCompilers()[m[1]] && compiler().MatchString(m[2]):
		in.call([]Word{Literal(m[2])})
		return
	case m[1] != "SHELL" && !HarmfulValue(m[1], m[2]):
		return
	}
	in.unclear(shown.Text, "is a variable that make's recipes execute")
}

// makeCompilers are the variables whose value is a compiler in make's own rules.
var makeCompilers = lazy.Set("CC CXX CPP")

var compiler = lazy.Regexp(`^(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-[0-9]+)?$`)

// harmlessValues are the words with which variables that programs obey are harmless all the same.
var harmlessValues = map[string]func() *regexp.Regexp{
	"CFLAGS": compilerFlag, "CXXFLAGS": compilerFlag, "CPPFLAGS": compilerFlag,
	"NODE_OPTIONS": lazy.Regexp(`^--max[-_]old[-_]space[-_]size=[0-9]+$`),
	"GOFLAGS":      lazy.Regexp(`^-(mod=(mod|vendor|readonly)|count=[0-9]+|p=[0-9]+|v|race|trimpath|buildvcs=(true|false|auto)|tags=[A-Za-z0-9_,]+)$`),
	"GOCACHE":      lazy.Regexp(`^/[A-Za-z0-9_./-]+$`),
}

// compilerFlag is a flag that neither runs nor loads anything.
var compilerFlag = lazy.Regexp(`^-(O[0-3sgz]?|Ofast|g[0-3]?|W[a-z][a-z0-9=+-]*|std=[a-z0-9+:]+|pipe|pthread|pedantic|f(PIC|PIE|no-[a-z-]+|sanitize=[a-z,]+|stack-protector|omit-frame-pointer)|m(arch|tune)=[a-z0-9-]+|D[A-Za-z0-9_]+(=[A-Za-z0-9_]*)?)$`)

// HarmfulValue reports whether programs may load or execute something because of a variable's value.
func HarmfulValue(name, value string) bool {
	if RiskyVariable(name) == Plain {
		return false
	}
	harmless := harmlessValues[name]
	return harmless == nil || slices.ContainsFunc(literals(value), func(w Word) bool { return !harmless().MatchString(w.Text) })
}
