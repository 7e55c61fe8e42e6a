package program

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// tables are the programs, one a line; a line that begins with a space continues the one above. A line is
//
//	NAME NAME… : FLAGS | OPERANDS | OPTIONS
//
// with names PROGRAM or PROGRAM/SUBCOMMAND (PROGRAM/* is any other). The operands are roles: of the first ones, of all others (ROLE*), of
// the last one. A role that takes all further words (cmd, script, sub: words in roles.go) comes last. "FUNCTION()" alone is a parser of its own.
//
// An option is NAMES (-x,--long), and
//
//	=ROLE     it takes a value        =?ROLE    it may, within the same word
//	!ROLE     it takes none           =#ROLE    only digits may follow it, then further letters
//	nothing   it takes none, and has no effect
//
// Roles joined by "+" all apply. After the role, "^" takes away the role of the first operand, "$" that of the last one, and "@ROLE" changes
// that of all others. "-#" is -NUMBER, "+*" each word that begins with "+", "%name" an operand name=VALUE, "%*" each of
// them, and "-*" means that options which aren't listed take no value.
//
// The flags:
//
//	posix         options end at the first operand
//	single        long options begin with a single dash as well
//	none=WHAT     without operands it does what nones has
//	here          without operands, it's about the folder in which it runs
//	strict        what isn't known about an option is unclear, as for a program whose operands are a command
//
//go:embed tables
var tables embed.FS

// entry is what the table has about a program.
type entry struct {
	name    string
	posix   bool
	single  bool
	here    bool
	strict  bool // the position of each word decides what is executed
	risky   bool // it has options that run programs
	none    string
	whole   string // the name of its own parser
	leads   []string
	rest    string
	last    string
	options map[string]*option
	long    []string // the long options, sorted
}

type argument uint8

const (
	noValue argument = iota
	mayHaveValue
	mayHaveDigits
	hasValue
)

// option is an option of a program.
type option struct {
	value       argument
	role        string // "" for no effect
	first, last bool   // it replaces the first operand, or the last one
	others      string // the new role of all others
}

// line is a line of the tables, for one of its names. It's parsed at its first use: a run of toolguard needs few of them.
type line struct {
	name, flags, operands, options string

	parse sync.Once
	entry *entry
}

// lines returns the lines by name.
var lines = sync.OnceValue(func() map[string]*line {
	all := map[string]*line{}
	files, err := tables.ReadDir("tables")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		text, err := tables.ReadFile("tables/" + f.Name())
		if err != nil {
			panic(err)
		}
		for l := range strings.Lines(strings.ReplaceAll(string(text), "\n ", " ")) {
			if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
				addLine(all, l)
			}
		}
	}
	return all
})

func addLine(all map[string]*line, text string) {
	columns := strings.SplitN(text, "|", 3)
	if len(columns) != 3 {
		panic("table: not three columns: " + text)
	}
	names, flags, _ := strings.Cut(columns[0], ":")
	for name := range strings.FieldsSeq(names) {
		if all[name] != nil {
			panic("table: twice: " + name)
		}
		all[name] = &line{name: name, flags: flags, operands: columns[1], options: columns[2]}
	}
}

// named returns the entry of a name in the tables; nil if there is none.
func named(name string) *entry {
	l := lines()[name]
	if l == nil {
		return nil
	}
	l.parse.Do(func() {
		e := &entry{name: l.name, options: map[string]*option{}}
		e.addFlags(l.flags)
		e.addOperands(l.operands)
		for o := range strings.FieldsSeq(l.options) {
			e.addOption(o)
		}
		e.long = longOptions(e.options)
		l.entry = e
	})
	return l.entry
}

// lookUp returns the entry of a program; nil if there is none. A version at the end of its name doesn't count.
func lookUp(name string) *entry {
	if strings.Contains(name, "/") {
		return nil
	}
	if e := named(name); e != nil {
		return e
	}
	if strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") {
		return named("ld.so")
	}
	return named(strings.TrimRight(name, "0123456789.-"))
}

func longOptions(options map[string]*option) (long []string) {
	for name := range options {
		if strings.HasPrefix(name, "--") {
			long = append(long, name)
		}
	}
	slices.Sort(long)
	return long
}

func (e *entry) addFlags(text string) {
	for f := range strings.FieldsSeq(text) {
		switch name, value, _ := strings.Cut(f, "="); name {
		case "posix":
			e.posix = true
		case "single":
			e.single = true
		case "strict":
			e.strict = true
		case "here":
			e.here = true
		case "none":
			e.none = value
			if nones[value] == "" {
				panic("table: none=" + value)
			}
		default:
			panic("table: flag " + f)
		}
	}
}

func (e *entry) addOperands(text string) {
	for role := range strings.FieldsSeq(text) {
		if name, ok := strings.CutSuffix(role, "()"); ok {
			if e.whole = name; parsers()[name] == nil {
				panic("table: parser " + role)
			}
			continue
		}
		name, isRest := strings.CutSuffix(role, "*")
		switch {
		case takers()[role] != nil:
			e.strict, e.posix = true, true
			e.leads = append(e.leads, role)
			continue
		case isRest:
			e.rest = name
		case e.rest != "":
			e.last = name
		default:
			e.leads = append(e.leads, name)
		}
		e.checkRole(name)
	}
}

func (e *entry) addOption(text string) {
	o := &option{}
	names := text
	if i := strings.IndexAny(text[2:], "=!@") + 2; i > 1 {
		names = text[:i]
		role := strings.TrimLeft(text[i:], "=!")
		if text[i] == '=' {
			o.value = hasValue
		}
		switch {
		case strings.HasPrefix(role, "?"):
			o.value, role = mayHaveValue, role[1:]
		case strings.HasPrefix(role, "#"):
			o.value, role = mayHaveDigits, role[1:]
		}
		role, o.others, _ = strings.Cut(role, "@")
		role, o.last = strings.CutSuffix(role, "$")
		role, o.first = strings.CutSuffix(role, "^")
		if o.role = role; role == "_" {
			o.role = ""
		}
		for _, r := range []string{o.role, o.others} {
			if r != "" {
				e.checkRole(r)
			}
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		if e.options[name] != nil {
			panic(fmt.Sprintf("table: %s has %s twice", e.name, name))
		}
		e.options[name] = o
	}
}

// checkRole checks that a role exists, and notes if it runs programs.
func (e *entry) checkRole(role string) {
	for r := range strings.SplitSeq(role, "+") {
		if roles()[r] == nil {
			panic(fmt.Sprintf("table: %s has the role %q, which doesn't exist", e.name, r))
		}
		e.risky = e.risky || executing[r]
	}
}
