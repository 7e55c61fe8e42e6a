// Package shell finds the commands in the text of a shell, without running it.
package shell

import "github.com/toolguard/toolguard/internal/tool/program"

// Dialect is a shell's language.
type Dialect uint8

// The dialects.
const (
	Bash Dialect = iota + 1
	POSIX
	Zsh
)

// Analyze returns what a script does: each program that it would execute, with the words as far as they're known, the files of its
// redirections, and what isn't clear. env and dir are those under which the script runs. It never fails: what can't be parsed is unclear.
func Analyze(script *program.Script, d Dialect) *program.Effects { return new(program.Effects) }
