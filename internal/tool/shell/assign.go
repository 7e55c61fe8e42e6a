package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// riskyNames are variables that change what the shell itself runs, reads or how it parses. Variables that programs obey are not here:
// they're in the calls' environments.
var riskyNames = lazy.Regexp(`^(PATH|IFS|ENV|BASH_ENV|CDPATH|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|POSIXLY_CORRECT|GLOBIGNORE|EXECIGNORE|` +
	`BASH_LOADABLES_PATH|BASH_FUNC_.*|BASH_CMDS|BASH_ALIASES|BASH_XTRACEFD|BASH_COMPAT|BASH_ARGV0|TEXTDOMAIN|TEXTDOMAINDIR|HISTFILE|FUNCNEST|` +
	`ZDOTDIR|FPATH|MODULE_PATH|NULLCMD|READNULLCMD)$`)

var riskyInZsh = lazy.Regexp(`^([a-z]*path|(dis_)?(aliases|galiases|saliases|functions|functions_source|builtins|patchars|reswords)|commands|` +
	`options|nameddirs|userdirs|modules|[a-z_]+_functions|PROMPT|PROMPT[2-4]|RPROMPT2?|RPS[12]|SPROMPT|KEYBOARD_HACK|histchars|ARGV0|STTY|argv|` +
	`signals|sysparams|mapfile|parameters)$`)

// integers are variables whose assigned value is evaluated as arithmetic.
var integers = lazy.Regexp(`^(SECONDS|RANDOM|SRANDOM|LINENO|HISTCMD|OPTIND|EPOCH.*|BASHPID|UID|EUID|GID|EGID|PPID|SHLVL|ERRNO|TTYIDLE|` +
	`COLUMNS|LINES|FUNCNEST|HISTSIZE|SAVEHIST|KEYTIMEOUT|LISTMAX|LOGCHECK|MAILCHECK|PERIOD|TMOUT|BAUD|DIRSTACKSIZE)$`)

// ownNames are variables to which shells assign on their own, or not as they're asked to: their values are never known.
var ownNames = lazy.Regexp(`^(_|PWD|OLDPWD|OPTARG|OPTIND|OPTERR|REPLY|MAPFILE|COPROC.*|BASH.*|FUNCNAME|GROUPS|DIRSTACK|PIPESTATUS|LINENO|` +
	`SECONDS|RANDOM|SRANDOM|EPOCH.*|HIST.*|COLUMNS|LINES|E?UID|E?GID|PPID|SHLVL|HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|READLINE.*|COMP.*)$`)

var ownInZsh = lazy.Regexp(`^(reply|pipestatus|status|USERNAME|MATCH|MBEGIN|MEND|match|mbegin|mend|ARGC|prompt|TTY.*|func.*|ERRNO|TRY_BLOCK.*|` +
	`ZSH.*|zsh.*|HOST|CPUTYPE|VENDOR|LOGNAME|KEYMAP|MANPATH|MAILPATH|FIGNORE|WATCH|PSVAR|psvar|watch|fignore|dirstack|history.*|job.*|term.*|` +
	`langinfo|errnos|usergroups|widgets|keymaps)$`)

var functionName = lazy.Regexp(`^[A-Za-z0-9_.:+@/%,-]+$`)

// risky reports an assignment that changes the shell.
func (a *analyzer) risky(name string, v value) {
	a.mutates = true
	switch {
	case riskyNames().MatchString(name), a.dialect == Zsh && riskyInZsh().MatchString(name):
		a.unclear(name, "is a variable that changes what the shell runs")
	case integers().MatchString(name) && !isNumeric(v) && v.Text != "":
		a.unclear(name, "is evaluated as arithmetic")
	}
}

// assign returns the state after an assignment.
func (a *analyzer) assign(st *state, name string, v value, export bool) *state {
	a.risky(name, v)
	return a.keep(st, name, v, export)
}

func (a *analyzer) keep(st *state, name string, v value, export bool) *state {
	old, _ := st.lookup(name)
	if a.scan.volatile[name] || ownNames().MatchString(name) || a.dialect == Zsh && ownInZsh().MatchString(name) {
		v = unknownValue(name)
	}
	return a.set(st, variable{name, v, export || old.exported || a.inheritable(name)})
}

// assignment analyses NAME=value.
func (a *analyzer) assignment(n *syntax.Assign, st *state) (name string, v value) {
	name = n.Name.Value
	v = unknownValue(name)
	if n.Index != nil {
		a.subscript(n.Index, st)
	}
	if n.Array != nil {
		for _, e := range n.Array.Elems {
			if e.Index != nil {
				a.subscript(e.Index, st)
			}
			if e.Value != nil {
				a.word(e.Value, argument, st)
			}
		}
		return name, v
	}
	assigned := a.one(n.Value, st)
	switch old, ok := st.lookup(name); {
	case n.Index != nil:
	case !n.Append:
		v = assigned
	case ok && old.value.Known && assigned.Known && !assigned.Home && !a.scan.volatile[name]:
		v = old.value
		v.Text += assigned.Text
	}
	return name, v
}

// subscript judges an index: arithmetic, or the key of an associative array.
func (a *analyzer) subscript(x syntax.ArithmExpr, st *state) {
	if !isAll(x) {
		a.arith(x, st)
	}
}

// call analyses a simple command.
func (a *analyzer) call(c *syntax.CallExpr, st *state) (ok, fail *state) {
	defaults := a.defaults
	argv := a.words(c.Args, st)
	defaults = a.defaults - defaults
	after := st
	var prefix []program.Variable
	for _, n := range c.Assigns {
		name, v := a.assignment(n, after)
		if len(c.Args) == 0 {
			after = a.assign(after, name, v, false)
			continue
		}
		prefix = append(prefix, program.Variable{Name: name, Value: v.Word})
		if name != "IFS" || len(argv) == 0 || argv[0].Text != "read" {
			a.risky(name, v)
		}
	}
	if len(c.Args) == 0 {
		return after, after
	}
	if argv == nil {
		return st, st
	}
	if a.dialect != POSIX && strings.ContainsRune(a.source(c.Args[0]), '{') && len(a.source(c.Args[0])) > 1 && len(argv) > 0 && len(c.Args) < len(argv) {
		a.unclearNode(c.Args[0], "is the name of a program, and isn't known")
	}
	a.named = a.scan.command(c.Args)
	ok, fail = a.run(argv, prefix, st, true)
	if defaults > 0 && !a.takes {
		a.takes = true
		argv = a.words(c.Args, st)
		a.takes, a.named = false, a.scan.command(c.Args)
		ok2, fail2 := a.run(argv, prefix, st, true)
		return a.join(ok, ok2), a.join(fail, fail2)
	}
	return ok, fail
}

// run analyses a command of which the words are evaluated. functions says whether a function's name stands for the function.
func (a *analyzer) run(argv []value, prefix []program.Variable, st *state, functions bool) (ok, fail *state) {
	if len(argv) == 0 {
		return st, st
	}
	name := argv[0]
	switch {
	case !name.Known:
		a.unclear(name.Text, "is the name of a program, and isn't known")
		return st, st
	case name.Text == "", name.Text[0] == '-' && !a.isBuiltin(name.Text): // time -- x runs x
		a.unclear("'"+name.Text+"'", "is the name of a program")
		return st, st
	}
	if functions && a.scan.funcs[name.Text] {
		return a.callFunction(argv, prefix, st)
	}
	b, isBuiltin := a.builtin(name)
	if !isBuiltin {
		a.emit(argv, prefix, st)
		return st, st
	}
	if scanned()[name.Text] && name.Text != a.named {
		a.mutates = true
		a.unclear(name.Text, "is a builtin command, and not named by the text")
	}
	during := st
	for _, v := range prefix {
		if v.Name == "IFS" && name.Text == "read" {
			continue
		}
		during = a.keep(during, v.Name, value{Word: v.Value}, true)
	}
	if b == nil {
		return a.join(st, during), a.join(st, during)
	}
	ok, fail = b(a, &invocation{name: name.Text, args: argv[1:], prefix: prefix, st: during})
	if during != st && ok != nil {
		ok = a.join(st, ok)
	}
	return ok, fail
}

// callFunction analyses a call of a name that the script defines as a function somewhere: perhaps it isn't defined yet, or not always.
func (a *analyzer) callFunction(argv []value, prefix []program.Variable, st *state) (ok, fail *state) {
	if !a.isBuiltin(argv[0].Text) && !a.defined(argv[0].Text, st) {
		a.emit(argv, prefix, st)
	}
	for _, v := range prefix {
		st = a.keep(st, v.Name, value{Word: v.Value}, true)
	}
	if a.scan.cdFunc {
		st = st.in(unknownDir)
	}
	return st, st
}

// declare analyses declare, export and others where the parser knows them.
func (a *analyzer) declare(d *syntax.DeclClause, st *state) *state {
	c := &invocation{name: d.Variant.Value, st: st}
	for _, arg := range d.Args {
		switch {
		case arg.Name == nil:
			for _, v := range a.word(arg.Value, argument, st) {
				c.args = append(c.args, v)
				c.words = append(c.words, declared{})
			}
		case arg.Naked:
			if arg.Index != nil {
				a.subscript(arg.Index, st)
			}
			c.args = append(c.args, literal(arg.Name.Value))
			c.words = append(c.words, declared{name: arg.Name.Value, naked: true})
		default:
			name, v := a.assignment(arg, c.st)
			c.args = append(c.args, literal(name))
			c.words = append(c.words, declared{name: name, value: v, array: arg.Array != nil})
		}
	}
	ok, _ := declareBuiltin(a, c)
	return ok
}

// declared is an argument of declare that the parser has analysed.
type declared struct {
	name  string
	value value
	naked bool
	array bool // of the form (…), which the parser knows
}
