package shell

import "strings"

// Options that change neither what is parsed nor what runs.
const (
	harmlessLetters = "euxfvmbhnCETt"
	harmlessSet     = " errexit nounset xtrace noglob verbose pipefail noclobber monitor notify errtrace functrace hashall allexport "
	harmlessShopt   = " nullglob dotglob globstar extglob nocaseglob nocasematch inherit_errexit huponexit checkwinsize cmdhist " +
		"histappend progcomp globasciiranges "
	harmlessSetopt = " errexit nounset xtrace verbose pipefail nullglob nonomatch dotglob globdots localoptions noclobber nobeep nohup "
)

func setBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	st := c.st
	for i := 0; i < len(c.args); i++ {
		arg := c.args[i]
		switch {
		case !arg.Known && (arg.Many || arg.Prefix == "" || strings.ContainsAny(arg.Prefix[:1], "-+")) && !arg.numeric:
			a.mutates = true
			a.unclear(c.text(), "may change options of the shell")
			return st, st
		case !arg.Known, len(arg.Text) == 0, arg.Text[0] != '-' && arg.Text[0] != '+', arg.Text == "--", arg.Text == "-":
			return st, st
		}
		a.mutates = true
		for _, letter := range arg.Text[1:] {
			switch {
			case letter == 'a' && a.scan.allExport:
			case letter == 'o' && i+1 < len(c.args) && isOperator(c.args[i+1], harmlessSet) && (a.scan.allExport || c.args[i+1].Text != "allexport"):
				i++
			case letter == 'o' && len(c.args) == 1:
			case !strings.ContainsRune(harmlessLetters, letter) || a.dialect == Zsh && !strings.ContainsRune("euxvC", letter):
				a.unclear(c.text(), "may change options of the shell")
			}
		}
	}
	return st, st
}

func shoptBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	return a.options(c, harmlessShopt, " -s -u -q -p ")
}

func setoptBuiltin(a *analyzer, c *invocation) (ok, fail *state) {
	return a.options(c, harmlessSetopt, "")
}

func (a *analyzer) options(c *invocation, harmless, flags string) (ok, fail *state) {
	a.mutates = true
	for _, arg := range c.args {
		name := arg
		if c.name != "shopt" {
			name.Text = strings.ReplaceAll(strings.ToLower(arg.Text), "_", "")
		}
		if !isOperator(name, harmless) && !isOperator(arg, flags) {
			a.unclear(c.text(), "may change options of the shell")
			break
		}
	}
	return c.st, c.st
}
