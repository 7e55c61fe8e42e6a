package program

import (
	"embed"
	"fmt"
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
//	!ROLE     it takes none           nothing   it takes none, and has no effect
//
// Roles joined by "+" all apply. After the role, "^" takes away the role of the first operand, "$" that of the last one, and "@ROLE" changes
// that of all others. "-#" is -NUMBER, "+x" an option that begins with "+", "+*" each of them, "%name" an operand name=VALUE, "%*" each of
// them, and "-*" means that options which aren't listed take no value.
//
// The flags:
//
//	posix         options end at the first operand
//	single        long options begin with a single dash as well
//	none=WHAT     without operands it does what nones has
//	strict        what isn't known about an option is unclear, as for a program whose operands are a command
//
//go:embed tables
var tables embed.FS

// entry is what the table has about a program.
type entry struct {
	name    string
	posix   bool
	single  bool
	strict  bool // the position of each word decides what is executed
	risky   bool // it has options that run programs
	none    string
	whole   string // the name of its own parser
	leads   []string
	rest    string
	last    string
	options map[string]*option
}

type argument uint8

const (
	noValue argument = iota
	mayHaveValue
	hasValue
)

// option is an option of a program.
type option struct {
	value       argument
	role        string // "" for no effect
	first, last bool   // it replaces the first operand, or the last one
	others      string // the new role of all others
}

var programs = sync.OnceValue(func() map[string]*entry {
	all := map[string]*entry{}
	files, err := tables.ReadDir("tables")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		text, err := tables.ReadFile("tables/" + f.Name())
		if err != nil {
			panic(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\n ", " ")) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				addEntries(all, line)
			}
		}
	}
	return all
})

// lookUp returns the entry of a program; nil if there is none. A version at the end of its name doesn't count.
func lookUp(name string) *entry {
	all := programs()
	if e := all[name]; e != nil && !strings.Contains(name, "/") {
		return e
	}
	if strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") {
		return all["ld.so"]
	}
	if short := strings.TrimRight(name, "0123456789.-"); short != "" && !strings.Contains(short, "/") {
		return all[short]
	}
	return nil
}

func addEntries(all map[string]*entry, line string) {
	columns := strings.SplitN(line, "|", 3)
	if len(columns) != 3 {
		panic("table: not three columns: " + line)
	}
	names, flags, _ := strings.Cut(columns[0], ":")
	for name := range strings.FieldsSeq(names) {
		e := &entry{name: name, options: map[string]*option{}}
		e.addFlags(flags)
		e.addOperands(columns[1])
		for o := range strings.FieldsSeq(columns[2]) {
			e.addOption(o)
		}
		if all[name] != nil {
			panic("table: twice: " + name)
		}
		all[name] = e
	}
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
			if e.whole = name; wholes[name] == nil {
				panic("table: parser " + role)
			}
			continue
		}
		name, isRest := strings.CutSuffix(role, "*")
		switch {
		case takers[role] != nil:
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
	if i := strings.IndexAny(text, "=!"); i > 0 {
		names = text[:i]
		role := text[i+1:]
		if text[i] == '=' {
			if o.value = hasValue; role[0] == '?' {
				o.value, role = mayHaveValue, role[1:]
			}
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
		if roles[r] == nil {
			panic(fmt.Sprintf("table: %s has the role %q, which doesn't exist", e.name, r))
		}
		e.risky = e.risky || executing[r]
	}
}
