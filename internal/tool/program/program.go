package program

import (
	"slices"
	"strings"
)

// Inspect returns what a call does beyond the execution of Argv[0] itself: the programs that it runs in turn, scripts, files, addresses,
// and what isn't clear. A program that isn't listed has no effects.
func Inspect(c *Call) *Effects {
	out := new(Effects)
	if len(c.Argv) == 0 {
		return out
	}
	first := c.Argv[0]
	if !first.Known {
		out.Unclear = append(out.Unclear, Unclear{first.Text, "is the name of a program, and isn't known"})
		return out
	}
	name := baseName(first.Text)
	if e := lookUp(name); e != nil {
		in := &inspection{out: out, name: name, env: c.Env, dir: c.Dir}
		in.run(e, c.Argv[1:])
	}
	return out
}

// inspection is one Inspect under way.
type inspection struct {
	out  *Effects
	name string     // of the program, with its subcommand
	env  []Variable // that the command line assigns; use variables
	dir  Word

	added   []Variable      // by the program's arguments
	removed map[string]bool // of env

	*entry
	leads    []string // the roles of the first operands that remain
	rest     string
	last     string
	words    []Word // that aren't parsed yet
	operands []Word
	here     bool // without operands of the last kind, it's about the folder in which it runs
	ended    bool // no more options
	guess    bool // an option wasn't known: it may take the next word as its value
	shaky    bool // a word may be an option, none or several: the positions of operands are uncertain
	done     bool // nothing more is to be parsed
	used     bool // it has its command or code, or only prints something about itself

	saves     bool // it writes files whose names its arguments do not have: in saveIn, or where it runs
	saveIn    []Word
	replace   string // of xargs: what its input replaces in the command; "" to append it
	appends   bool   // it has an option that may cancel replace
	sedScript []string
	tar       tarring

	gitFolders []Word
}

// run parses the words after the program's name (or its subcommand's) by its entry.
func (in *inspection) run(e *entry, words []Word) {
	if implicit()[e.name] {
		in.executesMore()
	}
	in.entry, in.leads, in.rest, in.last, in.here = e, e.leads, e.rest, e.last, e.here
	in.words, in.operands, in.ended, in.done = words, nil, false, false
	if e.whole != "" {
		in.done, in.used = true, true
		parsers()[e.whole](in, words)
		return
	}
	in.parse()
	if !in.done {
		in.finish()
	}
}

// finish applies the roles of the operands, once it's known how many there are.
func (in *inspection) finish() {
	ops := in.operands
	if in.shaky && (len(in.leads) > 0 || in.last != "") {
		ops = nil
	}
	n := min(len(in.leads), len(ops))
	for i, role := range in.leads[:n] {
		in.apply(role, ops[i], ops[i])
	}
	ops = ops[n:]
	if in.last != "" && (len(ops) > 1 || len(ops) == 1 && in.rest == "") {
		w := ops[len(ops)-1]
		in.apply(in.last, w, w)
		ops = ops[:len(ops)-1]
	}
	if in.rest != "" {
		for _, w := range ops {
			in.apply(in.rest, w, w)
		}
		if in.here && len(ops) == 0 && !in.shaky && in.elsewhere() && in.dir.Known {
			in.apply(in.rest, Literal("."), Literal("."))
		}
	}
	if in.saves && len(in.saveIn) == 0 {
		in.saveIn = []Word{Literal(".")}
	}
	for _, w := range in.saveIn {
		in.file(w, Write)
	}
	if len(in.sedScript) > 0 {
		in.checkSed(strings.Join(in.sedScript, "\n"))
	}
	if in.none != "" && !in.used {
		in.unclear(in.name, nones[in.none])
	}
}

// apply applies a role, or several joined by "+", to a word. shown is the word of the command line that has it.
func (in *inspection) apply(role string, w, shown Word) {
	for r := range strings.SplitSeq(role, "+") {
		roles()[r](in, w, shown)
	}
}

// elsewhere reports whether the program runs in another folder than the call.
func (in *inspection) elsewhere() bool {
	return in.dir.Text != "" && (!in.dir.Known || in.dir.Text != ".")
}

// maxUnclear bounds the list of what's unclear: one entry is enough for a decision, and a call may have a million words.
const maxUnclear = 50

func (in *inspection) unclear(word, why string) {
	u := Unclear{word, why}
	if len(in.out.Unclear) < maxUnclear && !slices.Contains(in.out.Unclear, u) {
		in.out.Unclear = append(in.out.Unclear, u)
	}
}

// stop ends the inspection: what follows isn't certain.
func (in *inspection) stop(word, why string) {
	in.unclear(word, why)
	in.done, in.used = true, true
}

// code adds a file that the program executes.
func (in *inspection) code(w Word) {
	n := len(in.out.Files)
	in.file(w, Read)
	for i := range in.out.Files[n:] {
		in.out.Files[n+i].Code = true
	}
}

func (in *inspection) call(argv []Word) {
	in.used = true
	in.out.Calls = append(in.out.Calls, Call{Argv: argv, Env: in.variables(), Dir: in.dir})
}

// script adds a text for a shell, or what is unclear if it isn't known.
func (in *inspection) script(shell string, w, shown Word) {
	in.used = true
	if !w.Known {
		in.unclear(shown.Text, "is a command line for "+shell+", and isn't known")
		return
	}
	in.out.Scripts = append(in.out.Scripts, Script{Text: w.Text, Shell: shell, Env: in.variables(), Dir: in.dir})
}

// variables returns what's assigned for a command that the program runs.
func (in *inspection) variables() []Variable {
	if in.removed == nil && in.added == nil {
		return in.env
	}
	all := make([]Variable, 0, len(in.env)+len(in.added))
	for _, v := range in.env {
		if !in.removed[v.Name] {
			all = append(all, v)
		}
	}
	return append(all, in.added...)
}

// file adds a file if it's certain which one it is, or in which folder. In the call's own folder, one that isn't known says nothing.
func (in *inspection) file(w Word, a Access) {
	if !w.Known && !strings.Contains(w.Prefix, "/") && !strings.HasPrefix(w.Text, "~") && !in.elsewhere() {
		return
	}
	if in.guess || w.Known && (w.Text == "" || w.Text == "-" && a != Delete) {
		return
	}
	in.out.Files = append(in.out.Files, File{Path: w, Dir: in.dir, Access: a})
}
