package program

import (
	"slices"
	"strings"
)

// parse takes the words apart into options, whose roles it applies, and operands.
func (in *inspection) parse() {
	for len(in.words) > 0 && !in.done {
		w := in.words[0]
		in.words = in.words[1:]
		text := w.certain()
		switch {
		case in.ended:
			in.operand(w)
		case w.splits() && (in.strict || in.risky), !w.Known && (text == "" || text == "-" || text == "--"):
			in.perhaps(w)
		case w.Known && text == "-" && in.options["-"] != nil:
			in.take(in.options["-"], w, w)
		case w.Known && text == "--":
			in.ended = !in.guess || !in.risky
		case strings.HasPrefix(text, "--"):
			in.longOption(w)
		case len(text) > 1 && text[0] == '-':
			in.short(w)
		case len(text) > 0 && text[0] == '+' && in.plus(w):
		default:
			in.operand(w)
		}
	}
}

// perhaps handles a word that may be an option, or several words.
func (in *inspection) perhaps(w Word) {
	if in.strict || in.risky {
		in.stop(w.Text, "may be an option with which "+in.name+" runs a program, and isn't known")
		return
	}
	in.shaky = true
	in.operands = append(in.operands, w)
}

// unlisted handles an option that the table doesn't have.
func (in *inspection) unlisted(w Word) {
	switch {
	case in.options["-*"] != nil:
		if len(in.words) > 0 && in.words[0].Known && in.words[0].Text == "--" {
			in.words = in.words[1:] // it may be the option's value
		}
	case in.strict:
		in.stop(w.Text, "is an option of "+in.name+" that isn't known")
	case in.risky:
		in.guess = true
	}
}

// longOption parses an option that begins with two dashes.
func (in *inspection) longOption(w Word) {
	text := w.certain()
	name, _, attached := strings.Cut(text, "=")
	if !w.Known && !attached {
		in.perhaps(w) // its name may go on
		return
	}
	o := in.find(name)
	switch {
	case o == nil:
		if !attached || in.strict && in.options["-*"] == nil {
			in.unlisted(w)
		}
	case attached && o.value == noValue && o.role == "":
	case attached:
		in.take(o, w.after(len(name)+1), w)
	case o.value == hasValue:
		in.takeNext(o, w)
	default:
		in.take(o, Literal(""), w)
	}
}

// find returns the long option that a name is, or abbreviates. Of several, it's one that runs programs; else, if only some of them take a
// value, it's none.
func (in *inspection) find(name string) *option {
	o := in.options[name]
	if o == nil && in.single {
		o = in.options[name[1:]]
	}
	if o != nil || len(name) < 3 || in.single {
		return o
	}
	differ := false
	i, _ := slices.BinarySearch(in.long, name)
	for ; i < len(in.long) && strings.HasPrefix(in.long[i], name); i++ {
		other := in.options[in.long[i]]
		differ = differ || o != nil && o.value != other.value
		if o == nil || weight(other) > weight(o) {
			o = other
		}
	}
	if differ && weight(o) < 2 {
		return nil
	}
	return o
}

// weight orders the options that an abbreviation may mean: those that run programs first, then those with an effect.
func weight(o *option) int {
	for r := range strings.SplitSeq(o.role, "+") {
		if executing[r] {
			return 2
		}
	}
	return min(1, len(o.role))
}

// short parses a word with one dash: letters, a number, or a long option of a program that has these.
func (in *inspection) short(w Word) {
	text := w.certain()
	if in.single && in.singleDash(w) {
		return
	}
	if o := in.options["-#"]; o != nil && isDigit(text[1]) {
		in.take(o, w.after(1), w)
		return
	}
	for i := 1; i < len(text); i++ {
		o := in.options["-"+text[i:i+1]]
		switch {
		case o == nil:
			if in.unlisted(w); in.done || in.single || in.options["-*"] != nil {
				return
			}
		case o.value == mayHaveDigits:
			for i+1 < len(text) && isDigit(text[i+1]) {
				i++
			}
			in.take(o, Literal(""), w)
		case o.value == noValue:
			in.take(o, Literal(""), w)
			if in.done {
				return
			}
		case i+1 < len(text) || !w.Known:
			in.take(o, w.after(i+1), w)
			return
		case o.value == hasValue:
			in.takeNext(o, w)
			return
		default:
			in.take(o, Literal(""), w)
			return
		}
	}
	if !w.Known {
		in.perhaps(w) // further letters
	}
}

// singleDash parses a long option with one dash, and reports whether it is one.
func (in *inspection) singleDash(w Word) bool {
	name, _, attached := strings.Cut(w.certain(), "=")
	o := in.options[name]
	if colon, _, ok := strings.Cut(name, ":"); o == nil && ok {
		name, o, attached = colon, in.options[colon], true
	}
	if o == nil || !w.Known && !attached {
		return false
	}
	switch {
	case attached:
		in.take(o, w.after(len(name)+1), w)
	case o.value == hasValue:
		in.takeNext(o, w)
	default:
		in.take(o, Literal(""), w)
	}
	return true
}

// plus parses an option that begins with "+", and reports whether the program has any.
func (in *inspection) plus(w Word) bool {
	if o := in.options["+*"]; o != nil {
		in.take(o, w.after(1), w)
		return true
	}
	return false
}

// takeNext applies an option to the next word, its value.
func (in *inspection) takeNext(o *option, w Word) {
	if len(in.words) == 0 {
		if in.done = in.strict; in.done {
			in.used = true // the program fails
		}
		return
	}
	value := in.words[0]
	if !in.guess {
		in.words = in.words[1:]
	}
	if value.Many && (in.strict || in.risky) {
		in.perhaps(value)
		return
	}
	in.shaky = in.shaky || value.Many
	shown := value
	if value.Known && value.Text == "" {
		shown = w
	}
	in.take(o, value, shown)
}

// take applies an option.
func (in *inspection) take(o *option, value, shown Word) {
	if o.first && len(in.leads) > 0 {
		in.leads = in.leads[1:]
	}
	if o.last {
		in.last = ""
	}
	if o.others != "" {
		in.rest = o.others
	}
	if o.role == "" {
		return
	}
	in.apply(o.role, value, shown)
}

// operand takes a word that's no option.
func (in *inspection) operand(w Word) {
	if in.takeAssignment(w) {
		return
	}
	if i := len(in.operands); i < len(in.leads) {
		if f := takers()[in.leads[i]]; f != nil {
			words := in.words
			in.words, in.done, in.used = nil, true, true
			in.finishLeads(i)
			f(in, w, words)
			return
		}
		if in.strict && w.Many {
			in.perhaps(w)
			return
		}
	}
	in.shaky = in.shaky || w.Many && (len(in.leads) > 0 || w.Prefix == "")
	in.operands = append(in.operands, w)
	in.ended = in.ended || in.posix
}

// finishLeads applies the roles of the operands before a command.
func (in *inspection) finishLeads(n int) {
	for i, role := range in.leads[:n] {
		in.apply(role, in.operands[i], in.operands[i])
	}
}

// takeAssignment handles an operand name=VALUE of a program that has these.
func (in *inspection) takeAssignment(w Word) bool {
	name, _, ok := strings.Cut(w.certain(), "=")
	if !ok {
		return false
	}
	if o := in.options["%"+name]; o != nil {
		in.take(o, w.after(len(name)+1), w)
		return true
	}
	if o := in.options["%*"]; o != nil && name != "" {
		in.take(o, w, w)
		return true
	}
	return false
}
