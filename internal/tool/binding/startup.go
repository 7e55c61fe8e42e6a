package binding

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/toolguard/toolguard/internal/tool/program"
)

// The files that shells execute before a command: with the options for a login or interactive shell, and zsh always. Of system-wide files,
// those that these execute in turn are root's.
var (
	alwaysZsh    = []string{"/etc/zshenv", "/etc/zsh/zshenv", "~/.zshenv"}
	loginShell   = []string{"/etc/profile", "~/.profile", "~/.bash_profile", "~/.bash_login", "/etc/bash.bashrc", "/etc/bashrc", "~/.bashrc"}
	loginZsh     = []string{"/etc/zprofile", "/etc/zsh/zprofile", "~/.zprofile", "/etc/zshrc", "/etc/zsh/zshrc", "~/.zshrc", "/etc/zlogin", "/etc/zsh/zlogin", "~/.zlogin"}
	otherStartup = map[string]bool{
		"fish": true, "csh": true, "tcsh": true, "nu": true, "elvish": true, "xonsh": true, "pwsh": true, "powershell": true, "rc": true, "es": true,
		"ksh": true, "ksh93": true, "mksh": true, "yash": true, "ion": true, "oil": true, "osh": true, "ysh": true, "ipython": true, "irb": true,
	}
)

// startup binds the start-up files of a shell that exist. Check finds one that is made later.
func (c *collector) startup(name string, args []program.Word) {
	if otherStartup[name] {
		c.doubt(name + " executes start-up files")
		return
	}
	var files []string
	switch isZsh := name == "zsh"; {
	case isZsh && startsFully(args):
		files = append(append(files, alwaysZsh...), loginZsh...)
	case isZsh:
		files = alwaysZsh
	case (name == "sh" || name == "bash" || name == "dash" || name == "rbash") && startsFully(args):
		files = loginShell
	default:
		return
	}
	if c.variable("ZDOTDIR") != "" {
		c.doubt("the environment has ZDOTDIR, which makes zsh execute other files")
	}
	home := c.variable("HOME")
	for _, file := range files {
		if rest, ok := strings.CutPrefix(file, "~"); ok {
			if home == "" {
				c.doubt(name + " executes start-up files in a home that isn't known")
				return
			}
			file = home + rest
		}
		if _, err := os.Lstat(file); err == nil || !errors.Is(err, fs.ErrNotExist) {
			c.bind(file)
		}
	}
}

// startsFully reports whether options of a shell may make it a login or interactive one.
func startsFully(args []program.Word) bool {
	for _, w := range args {
		switch {
		case !strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "+"):
			return false
		case strings.HasPrefix(w.Text, "--"):
			if strings.Contains(w.Text, "login") {
				return true
			}
		case strings.ContainsAny(w.Text, "li"):
			return true
		}
	}
	return false
}
