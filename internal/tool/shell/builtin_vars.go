package shell

import (
	"strings"
)

func printfBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	if a.dialect == POSIX && len(c.args) > 0 && c.args[0].Known {
		return c.st, c.st
	}
	letters, values, rest, unknown := c.options("v")
	if unknown && len(rest) > 0 && !rest[0].Known || unknown || strings.Trim(letters, "v") != "" {
		a.unclear(c.text(), "may assign a variable that isn't known")
		return c.st, c.st
	}
	if a.dialect == Zsh && len(rest) > 0 && strings.Trim(formats(rest[0].Text), "sqb%") != "" {
		a.unclear(c.text(), "is evaluated as arithmetic")
	}
	if name, assigned := values['v']; assigned {
		if !a.scan.volatile[name.Text] {
			a.unclear(name.Text, "assigns a variable that isn't known")
		}
		st := a.assignNames(c.st, []value{name})
		return st, a.join(st, c.st)
	}
	return c.st, c.st
}

// formats returns the letters of the conversions in a format.
func formats(format string) (letters string) {
	for {
		_, after, found := strings.Cut(format, "%")
		if !found {
			return letters
		}
		after = strings.TrimLeft(after, "-+ #0123456789.*")
		if after == "" {
			return letters
		}
		letters += after[:1]
		format = after[1:]
	}
}

func readBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	with, allowed := "adinNptu", "adinNptuers"
	switch a.dialect {
	case Zsh:
		with, allowed = "d", "drsA"
	case POSIX:
		with, allowed = "p", "pr"
	}
	letters, values, names, unknown := c.options(with)
	if unknown || strings.Trim(letters, allowed) != "" {
		a.mutates = true
		a.unclear(c.text(), "assigns a variable that isn't known")
		return c.st, c.st
	}
	if a.dialect != Zsh {
		if array, ok := values['a']; ok {
			names = append(names[:len(names):len(names)], array)
		}
	}
	if a.dialect == Zsh && len(names) > 0 {
		names[0].Text, _, _ = strings.Cut(names[0].Text, "?")
	}
	st := c.st
	if len(names) == 0 {
		st = a.assign(st, "REPLY", unknownValue("REPLY"), false)
	}
	st = a.assignNames(st, names)
	return st, st
}

func mapfileBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, names, unknown := c.options("dnOsuCc")
	if unknown || strings.Trim(letters, "dnOsut") != "" {
		a.unclear(c.text(), "may run a command")
	}
	if len(names) == 0 {
		names = []value{literal("MAPFILE")}
	}
	st := a.assignNames(c.st, names)
	return st, st
}

func namesBuiltin(a *analyzer, c *invocation) (ok, fail *state) { // getopts
	if len(c.args) < 2 || c.args[0].Many {
		a.unclear(c.text(), "assigns a variable that isn't known")
		return c.st, c.st
	}
	st := a.assignNames(c.st, c.args[1:2])
	for _, name := range []string{"OPTARG", "OPTIND"} {
		st = a.keep(st, name, unknownValue(name), false)
	}
	return st, st
}

func waitBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, _, unknown := c.options("p")
	if unknown || strings.Trim(letters, "nf") != "" {
		a.mutates = true
		a.unclear(c.text(), "may assign a variable that isn't known")
	}
	return c.st, c.st
}

func unsetBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	a.mutates = true
	letters, _, names, unknown := c.options("")
	if unknown || strings.Trim(letters, "vf") != "" {
		a.unclear(c.text(), "assigns a variable that isn't known")
		return c.st, c.st
	}
	st := c.st
	for _, n := range names {
		if n.Known && functionName().MatchString(n.Text) {
			st = a.set(st, variable{functionPrefix + n.Text, unknownValue(n.Text), false})
		}
	}
	if letters == "f" {
		return st, st
	}
	st = a.assignNames(st, names)
	return st, st
}

// declareBuiltin is for export, readonly, local, declare and typeset.
func declareBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	st, export := c.st, c.name == "export"
	options, array := true, false
	for i, arg := range c.args {
		d := declared{}
		if i < len(c.words) {
			d = c.words[i]
		}
		if d.name == "" {
			switch {
			case !arg.Known || arg.Home:
				name, _, found := strings.Cut(arg.Prefix, "=")
				if !found || !identifier().MatchString(name) || arg.Many {
					a.mutates = true
					a.unclear(arg.Text, "assigns a variable that isn't known")
					continue
				}
				d = declared{name: name, value: unknownValue(name)}
			case options && len(arg.Text) > 1 && (arg.Text[0] == '-' || arg.Text[0] == '+'):
				if strings.Trim(arg.Text[1:], a.declareOptions(c.name)) != "" {
					a.mutates = true
					a.unclear(c.text(), "has options that aren't understood")
				}
				export = export || arg.Text[0] == '-' && strings.Contains(arg.Text, "x")
				array = array || strings.ContainsAny(arg.Text, "aA")
				continue
			default:
				d = splitAssignment(arg)
			}
		}
		options = false
		if c.name == "local" { // fails outside functions
			d.value = unknownValue(d.name)
		}
		// bash evaluates the value (…) of an array again.
		if !d.array && !d.naked && (strings.HasPrefix(d.value.Text, "(") || !d.value.Known && !d.value.numeric && (array || a.scan.arrays[d.name])) {
			a.unclear(arg.Text, "is evaluated as the value of an array")
		}
		st = a.declareOne(st, d, export, arg)
	}
	return st, st
}

func (a *analyzer) declareOptions(name string) string {
	switch {
	case name == "export", name == "readonly":
		return "p-"
	case a.dialect == Zsh:
		return "aAxrgp-"
	}
	return "aAxrgpfF-"
}

func (a *analyzer) declareOne(st *state, d declared, export bool, arg value) *state {
	switch {
	case !identifier().MatchString(d.name):
		a.mutates = true
		a.unclear(arg.Text, "assigns a variable that isn't known")
		return st
	case !d.naked:
		return a.assign(st, d.name, d.value, export)
	}
	a.mutates = true
	old, ok := st.lookup(d.name)
	if !ok {
		old.value = unknownValue(d.name)
	}
	return a.keep(st, d.name, old.value, export)
}

func splitAssignment(arg value) declared {
	name, text, found := strings.Cut(arg.Text, "=")
	if !found {
		return declared{name: name, naked: true}
	}
	if short, plus := strings.CutSuffix(name, "+"); plus {
		return declared{name: short, value: unknownValue(short)}
	}
	return declared{name: name, value: literal(text)}
}
