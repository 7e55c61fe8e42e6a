package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/tool/program"
)

func evalBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	var texts []string
	args := c.args
	if len(args) > 0 && args[0].Known && args[0].Text == "--" {
		args = args[1:]
	}
	for _, arg := range args {
		if !arg.Known || arg.Home {
			a.mutates = true
			a.unclear(c.text(), "is code that isn't known")
			return c.st, c.st
		}
		texts = append(texts, arg.Text)
	}
	c.definer = c.st
	a.code(strings.Join(texts, " "), c)
	return c.st, c.st
}

// code adds a script that this shell runs. The analysis of the rest stands only if the script changes nothing in this shell.
func (a *analyzer) code(text string, c *invocation) {
	if text == "" || a.defined(text, c.definer) {
		return
	}
	for _, dir := range c.st.dirs {
		script := program.Script{Text: text, Shell: dialects[a.dialect].name, Env: c.st.env, Dir: dir}
		a.out.Scripts = append(a.out.Scripts, script)
	}
	inner := newAnalyzer(a.dialect)
	inner.nested, inner.expanded = a.nested+1, a.expanded
	if inner.nested > maxEval {
		a.unclear(c.text(), "is nested too deeply")
		return
	}
	inner.script(&program.Script{Text: text, Dir: c.st.dirs[0]})
	a.expanded = inner.expanded + len(text)
	if inner.mutates || a.expanded > maxExpanded {
		a.mutates = true
		a.unclear(c.text(), "is code that changes the shell itself")
	}
}

// sourceBuiltin is a call of the shell with the file: the commands in the file can do all that this shell can do, also to what follows, and
// no more than they could do in a shell of their own.
func sourceBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	a.mutates = true
	if len(c.args) == 0 || !c.args[0].Known || strings.HasPrefix(c.args[0].Text, "-") {
		a.unclear(c.text(), "executes the commands in a file")
		return c.st, c.st
	}
	argv := append([]value{literal(dialects[a.dialect].name)}, c.args...)
	if !strings.Contains(c.args[0].Text, "/") { // it's searched for in PATH first
		a.unclear(c.text(), "executes the commands in a file that PATH leads to")
	}
	a.emit(argv, c.prefix, c.st)
	return c.st, c.st
}

func execBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, rest, unknown := c.options("a")
	switch {
	case strings.Contains(letters, "a"):
		a.unclear(c.text(), "runs a program under another name")
	case unknown:
		a.unclear(c.text(), "is the name of a program, and isn't known")
		return c.st, c.st
	}
	if len(rest) == 0 {
		return c.st, c.st
	}
	a.external(rest, c)
	return nil, c.st
}

// external runs a program, even where there's a builtin or a function of its name.
func (a *analyzer) external(argv []value, c *invocation) {
	switch name := argv[0]; {
	case !name.Known:
		a.unclear(name.Text, "is the name of a program, and isn't known")
	case name.Text == "", name.Text[0] == '-':
		a.unclear("'"+name.Text+"'", "is the name of a program")
	default:
		a.emit(argv, c.prefix, c.st)
	}
}

func commandBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, rest, unknown := c.options("")
	switch {
	case unknown:
		a.unclear(c.text(), "is the name of a program, and isn't known")
		return c.st, c.st
	case strings.ContainsAny(letters, "vV"), len(rest) == 0:
		return c.st, c.st
	case strings.Trim(letters, "p") != "":
		a.unclear(c.text(), "has options that aren't understood")
	}
	if a.dialect == Zsh && c.name == "command" {
		a.external(rest, c)
		if !a.isBuiltin(rest[0].Text) {
			return c.st, c.st
		}
	}
	return a.run(rest, c.prefix, c.st, false)
}

func trapBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, rest, unknown := c.options("")
	switch {
	case unknown:
		a.unclear(c.text(), "is code that isn't known")
	case letters != "", len(rest) < 2:
		if letters != "" && strings.Trim(letters, "lp") != "" {
			a.unclear(c.text(), "has options that aren't understood")
		}
	case !rest[0].Known, rest[0].Home:
		a.unclear(c.text(), "is code that isn't known")
	case rest[0].Text != "-":
		later := *c
		later.st, later.definer = a.functionState(), c.st
		a.code(rest[0].Text, &later)
	}
	return c.st, c.st
}

func exitBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	switch {
	case len(c.args) == 0, len(c.args) == 1 && isNumeric(c.args[0]):
		return nil, nil
	case a.dialect == Zsh:
		return numbersBuiltin(a, c)
	}
	return c.st, c.st
}

func cdBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	a.mutates = true
	letters, _, rest, unknown := c.options("")
	to := program.Word{Text: "~", Known: true, Home: true}
	switch {
	case len(rest) > 1, unknown && (len(rest) == 0 || rest[0].Many):
		to = unknownDir
	case len(rest) == 1:
		to = rest[0].Word
	case a.scan.assigned["HOME"]:
		to = unknownDir
	}
	switch {
	case to.Known && to.Text == "":
		return c.st, c.st
	case to.Known && !to.Home && (to.Text == "-" || strings.HasPrefix(to.Text, "+") || strings.HasPrefix(to.Text, "-")):
		to = unknownDir
	case strings.Trim(letters, "L") != "" && strings.Contains(to.Text, ".."):
		to = unknownDir
	}
	if a.scan.discards {
		return c.st.in(unknownDir), c.st
	}
	return a.enter(c.st, to), c.st.failedCd()
}

// enter returns the state after cd. Where the shell is because an earlier cd failed, the text doesn't mean to leave that directory upwards:
// then none is known.
func (a *analyzer) enter(st *state, to program.Word) *state {
	var dirs, lost []program.Word
	for _, dir := range st.dirs {
		next := joinDir(dir, to)
		if slices.Contains(st.lost, dir) && !to.Home && !path.IsAbs(to.Text) {
			if slices.Contains(strings.Split(to.Text, "/"), "..") {
				next = unknownDir
			}
			lost = append(lost, next)
		}
		dirs = append(dirs, next)
	}
	after := st.in(dirs...)
	for _, dir := range st.regular() {
		next := joinDir(dir, to)
		lost = slices.DeleteFunc(lost, func(d program.Word) bool { return d == next })
	}
	if len(lost) > 0 && after.dirs[0] != unknownDir {
		after.lost = lost
	}
	return after
}

func pushdBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	if len(c.args) != 1 || !c.args[0].Known || strings.HasPrefix(c.args[0].Text, "-") {
		return popdBuiltin(a, c)
	}
	return cdBuiltin(a, c)
}

func popdBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	a.mutates = true
	return c.st.in(unknownDir), c.st.failedCd()
}
