// Package program knows, as data, what common programs do with their arguments: which ones run another program, execute code in an
// argument, or read, write and delete the files that are named.
package program

// Inspect returns what a call does beyond the execution of Argv[0] itself: the programs that it runs in turn, scripts, files, addresses,
// and what isn't clear. A program that isn't listed has no effects.
func Inspect(c *Call) *Effects { return new(Effects) }

// VariableKind is what an environment variable that a command line assigns does.
type VariableKind uint8

// The kinds.
const (
	Harmless    VariableKind = iota
	CommandLine              // its value is a command line for a shell
	Risky                    // programs load or execute what it names, or obey it
)

// RiskyVariable returns the kind of a variable.
func RiskyVariable(name string) VariableKind { return Harmless }
