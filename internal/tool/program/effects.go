package program

// Word is a word of a command line, as far as its value is known before the command runs.
type Word struct {
	Text   string // the value; of an unknown word its source text
	Known  bool
	Prefix string // of an unknown word: how its value, or each of them, certainly begins; "" for nothing certain
	Many   bool   // an unknown word that may become none or several: an unquoted expansion, a pattern, "$@"

	// Home is set if the first byte of Text (known) or Prefix (unknown) is a ~ that stands for the value of HOME: an unquoted ~ or ~/,
	// or $HOME. Without it, a ~ is part of the name.
	Home bool
}

// Literal returns a known word.
func Literal(text string) Word { return Word{Text: text, Known: true} }

// Variable is an environment variable that a command line assigns.
type Variable struct {
	Name  string
	Value Word
}

// Call is a program that would be executed.
type Call struct {
	Argv []Word     // at least one
	Env  []Variable // what the command line assigns for it, the later one of a name counts
	Dir  Word       // its working directory: absolute, or relative to that of the tool call; "" for that itself
}

// Script is text that a shell would execute.
type Script struct {
	Text  string
	Shell string // "sh", "bash", "zsh", "dash" …: the name of the program
	Env   []Variable
	Dir   Word
}

// Access is what a program does with a file.
type Access uint8

// The accesses.
const (
	Read   Access = iota + 1
	Write         // create, or update what exists
	Delete        // of the name itself, also where it's a symlink
	Execute
)

// File is a file that a program certainly uses if it runs. If Path isn't known, it's a file in the folder with which its Prefix begins; in
// Dir, if that has no slash; or in the home of another user, if its Text begins with ~.
type File struct {
	Path   Word
	Dir    Word // what Path is relative to, as in Call
	Access Access
	Code   bool // the program executes what is in the file, as an interpreter does with a script
}

// URL is an address that a program connects to; it needn't be known.
type URL struct{ Target Word }

// Unclear is a word whose effect isn't known before the command runs.
type Unclear struct {
	Word string // as it is in the source
	Why  string // a phrase that follows the word: "is code for python", "is the name of a program, and isn't known"
}

// Effects are what a command line, or one program with its arguments, is known to do.
type Effects struct {
	Calls   []Call
	Scripts []Script
	Files   []File
	URLs    []URL
	Unclear []Unclear

	// Implicit are programs that execute files which their arguments don't name: the Makefile, the scripts of a package, the modules of a folder.
	Implicit []Unclear
}

// Add appends other effects.
func (e *Effects) Add(o *Effects) {
	e.Calls = append(e.Calls, o.Calls...)
	e.Scripts = append(e.Scripts, o.Scripts...)
	e.Files = append(e.Files, o.Files...)
	e.URLs = append(e.URLs, o.URLs...)
	e.Unclear = append(e.Unclear, o.Unclear...)
	e.Implicit = append(e.Implicit, o.Implicit...)
}
