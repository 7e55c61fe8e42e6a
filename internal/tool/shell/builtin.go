package shell

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// invocation is a builtin command with its arguments.
type invocation struct {
	name   string
	args   []value
	prefix []program.Variable
	st     *state
	words  []declared // of declare and others: for each argument, what the parser knows of it

	definer *state // of eval and trap: where the command is
}

// handler analyses a builtin and returns the states after its success and failure.
type handler func(*analyzer, *invocation) (ok, fail *state)

// builtins are the builtin commands of each dialect. A nil handler is for those that run nothing and assign nothing. Builtins of bash
// and zsh that dash doesn't have are unclear in POSIX: sh may be any of them.
func builtins() map[Dialect]map[string]handler { return allBuiltins.Get(makeBuiltins) }

var allBuiltins lazy.Value[map[Dialect]map[string]handler]

func makeBuiltins() map[Dialect]map[string]handler {
	posix := group(nil, ": true false echo pwd bg fg kill times type ulimit umask break continue return shift")
	maps.Copy(posix, map[string]handler{
		"[": testBuiltin, "test": testBuiltin, "printf": printfBuiltin, "read": readBuiltin, "getopts": namesBuiltin, "unset": unsetBuiltin,
		"cd": cdBuiltin, "chdir": cdBuiltin, "eval": evalBuiltin, ".": sourceBuiltin, "exec": execBuiltin, "command": commandBuiltin,
		"trap": trapBuiltin, "alias": aliasBuiltin, "unalias": nil, "export": declareBuiltin, "readonly": declareBuiltin, "local": declareBuiltin,
		"set": setBuiltin, "exit": exitBuiltin, "hash": hashBuiltin, "jobs": jobsBuiltin, "wait": waitBuiltin,
	})
	bash := maps.Clone(posix)
	delete(bash, "chdir")
	maps.Copy(bash, group(nil, "disown suspend dirs help caller"))
	maps.Copy(bash, map[string]handler{
		"source": sourceBuiltin, "builtin": commandBuiltin, "declare": declareBuiltin, "typeset": declareBuiltin, "pushd": pushdBuiltin,
		"popd": popdBuiltin, "shopt": shoptBuiltin, "let": unclearBuiltin, "mapfile": mapfileBuiltin, "readarray": mapfileBuiltin,
	})
	maps.Copy(bash, group(unclearBuiltin, "enable complete compgen compopt bind fc history logout coproc"))
	zsh := maps.Clone(bash)
	for _, name := range []string{"help", "caller", "shopt", "mapfile", "readarray", "complete", "compgen", "compopt", "bind"} {
		delete(zsh, name)
	}
	zsh["chdir"] = cdBuiltin
	maps.Copy(zsh, group(numbersBuiltin, "break continue return shift exit"))
	maps.Copy(zsh, group(nil, "which whence where rehash"))
	maps.Copy(zsh, map[string]handler{
		"print": printBuiltin, "setopt": setoptBuiltin, "unsetopt": setoptBuiltin, "noglob": precommand, "nocorrect": precommand,
		"exit": exitBuiltin,
	})
	maps.Copy(zsh, group(unclearBuiltin, "- autoload functions unfunction zmodload emulate vared zle bindkey sched zcompile zstyle zparseopts zformat "+
		"zregexparse compctl compadd compdef integer float nameref private disable limit unlimit unhash getln print0 pushln r log ttyctl zprof "+
		"repeat foreach end always coproc unalias clone echotc echoti cap getcap setcap stat zstat zsystem ztcp zsocket zpty zselect syserror sysopen "+
		"sysread syswrite sysseek strftime zcurses zftp zgetattr zsetattr zdelattr zlistattr zf_chgrp zf_chmod zf_chown zf_ln zf_mkdir zf_mv zf_rm "+
		"zf_rmdir zf_sync example pcre_compile pcre_match pcre_study"))
	bashOnly := []string{
		"source", "builtin", "declare", "typeset", "pushd", "popd", "shopt", "let", "mapfile", "readarray", "enable", "complete",
		"compgen", "compopt", "bind", "fc", "history", "logout", "coproc", "disown", "suspend", "dirs", "help", "caller", "[[", "function", "select",
		"print", "whence", "nameref", "integer", "float", "setopt", "emulate", "autoload", "zmodload", "noglob", "repeat", "foreach",
	}
	for _, name := range bashOnly {
		posix[name] = unclearBuiltin
	}
	return map[Dialect]map[string]handler{Bash: bash, POSIX: posix, Zsh: zsh}
}

func group(h handler, names string) map[string]handler {
	m := map[string]handler{}
	for name := range strings.FieldsSeq(names) {
		m[name] = h
	}
	return m
}

func (a *analyzer) isBuiltin(name string) bool {
	_, ok := builtins()[a.dialect][name]
	return ok
}

func (a *analyzer) builtin(name value) (h handler, ok bool) {
	if name.Home {
		return nil, false
	}
	h, ok = builtins()[a.dialect][name.Text]
	return h, ok
}

func unclearBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	a.mutates = true
	if len(c.args) > 0 || c.name != "history" && c.name != "enable" && c.name != "dirs" {
		a.unclear(c.text(), "is a builtin command that isn't understood")
	}
	return c.st, c.st
}

// text returns the command for a message.
func (c *invocation) text() string {
	var b strings.Builder
	b.WriteString(c.name)
	for _, arg := range c.args {
		if b.Len() > maxShown {
			break
		}
		b.WriteByte(' ')
		b.WriteString(arg.Text)
	}
	return b.String()
}

// options takes the options off the arguments. with are the letters that take a value; unknown is set if an option may be in a word
// that isn't known.
func (c *invocation) options(with string) (letters string, values map[byte]value, rest []value, unknown bool) {
	values = map[byte]value{}
	rest = c.args
	for len(rest) > 0 {
		arg := rest[0]
		if !arg.Known {
			if arg.numeric { // or empty: then the next word may be an option
				return letters, values, rest, arg.Many && slices.ContainsFunc(rest[1:], func(v value) bool { return !v.numeric })
			}
			return letters, values, rest, arg.Many || arg.Prefix == "" || arg.Prefix[0] == '-'
		}
		if len(arg.Text) < 2 || arg.Text[0] != '-' || arg.Home {
			break
		}
		rest = rest[1:]
		if arg.Text == "--" {
			break
		}
		for i := 1; i < len(arg.Text); i++ {
			letter := arg.Text[i]
			letters += string(letter)
			if strings.IndexByte(with, letter) < 0 {
				continue
			}
			if i+1 < len(arg.Text) {
				values[letter] = literal(arg.Text[i+1:])
			} else if len(rest) > 0 {
				values[letter], rest = rest[0], rest[1:]
			}
			unknown = unknown || values[letter].Many
			break
		}
	}
	return letters, values, rest, unknown
}

// assignNames assigns unknown values to the variables that arguments name.
func (a *analyzer) assignNames(st *state, names []value) *state {
	for _, n := range names {
		if !n.Known || !identifier().MatchString(n.Text) {
			a.mutates = true
			a.unclear(n.Text, "assigns a variable that isn't known")
			continue
		}
		v := unknownValue(n.Text)
		st = a.assign(st, n.Text, v, false)
	}
	return st
}

func numbersBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	for _, arg := range c.args {
		if !isNumeric(arg) {
			a.unclear(c.text(), "is evaluated as arithmetic")
		}
	}
	return c.st, c.st
}

func jobsBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, _, unknown := c.options("")
	if unknown || strings.Contains(letters, "x") {
		a.unclear(c.text(), "may run a command")
	}
	return c.st, c.st
}

func hashBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	for _, arg := range c.args {
		if !arg.Known || arg.Text != "-r" && !functionName().MatchString(arg.Text) || strings.HasPrefix(arg.Text, "-") && arg.Text != "-r" {
			a.unclear(c.text(), "may change what a name runs")
		}
	}
	return c.st, c.st
}

func aliasBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	if len(c.args) > 0 {
		a.mutates = true
		a.unclear(c.text(), "may change what a name runs")
	}
	return c.st, c.st
}

// precommand is for words of zsh that change how the next words are read.
func precommand(a *analyzer, c *invocation) (ok, fail *state) {
	return a.run(c.args, c.prefix, c.st, true)
}

func printBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	letters, _, _, unknown := c.options("")
	if unknown || strings.Trim(letters, "rnlNa") != "" {
		a.unclear(c.text(), "has options that aren't understood")
	}
	return c.st, c.st
}
