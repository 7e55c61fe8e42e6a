// Package binding finds what an approval of a command is bound to: its words, its working directory, its environment, and the contents of the
// files that it executes.
//
// # What is bound
//
// The executable, found as execvp(3) finds it, and each file that an interpreter or a shell in the command executes: scripts, the interpreters
// that their first lines name, the programs and scripts of each command in a text for a shell, start-up files of shells. Files are
// named by their paths without symlinks. Of a program that isn't known, each file in its arguments counts.
//
// # What isn't
//
// What these files load in turn: libraries, modules that a script imports, files that a script executes. The kernel enforces the policy on them.
// Between Check and execve, a process of the session that may write a file can still change it: grant no call what only its present contents
// deserve where the policy lets the session write the executed file.
//
// # Unique
//
// The files may be uncertain: inline code, a variable or a pattern where a program is named, a program that executes files which its arguments
// don't name (make, npm run), a file that can't be read, too many files. Then Unique is false, and only this one call may be approved. What is
// known is bound all the same.
package binding

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// The bounds of what is bound.
const (
	maxFiles = 64
	maxBytes = 256 << 20 // of all files
	maxCalls = 256       // programs in one command
	maxDepth = 32        // sh -c "env sh -c …"
	maxWords = 4096      // of one command
)

// Call is a command of a tool call. One of Argv and Script is given.
type Call struct {
	Argv   []string // is executed as it is
	Script string   // is executed by a shell
	Shell  string   // that executes Script, as [gate] has it: "bash", "posix", "zsh"; "" or "auto" if it isn't known
	Cwd    string   // absolute
	Env    []string // of the session
}

// Bound is what an approval is bound to.
type Bound struct {
	Argv      []string // of a script: the shell, "sh" if it isn't known, -c and the text
	Cwd       string   // without symlinks
	Exe       *message.File
	Files     []message.File // by path, without Exe
	EnvSHA256 string
	Unique    bool
	Why       string // it isn't unique

	call Call
}

// Of returns what an approval of a command is bound to. The error is that of a command that can't run at all.
func Of(c Call) (Bound, error) {
	b := Bound{call: c, EnvSHA256: envDigest(c.Env)}
	switch {
	case (len(c.Argv) == 0) == (c.Script == ""):
		return b, errors.New("the call has no command, or two")
	case !filepath.IsAbs(c.Cwd):
		return b, fmt.Errorf("the working directory %q isn't absolute", c.Cwd)
	case strings.IndexByte(strings.Join(c.Argv, "")+c.Script+c.Cwd, 0) >= 0:
		return b, errors.New("the command has a NUL byte")
	}
	var err error
	if b.Cwd, err = resolveFolder(c.Cwd); err != nil {
		return b, err
	}
	b.Argv = slices.Clone(c.Argv)
	if c.Script != "" {
		b.Argv = []string{shellOf(c.Shell), "-c", c.Script}
	}
	x := collect(&c, b.Cwd)
	if c.Cwd != b.Cwd { // where the shell goes from a symlink by "cd .." depends on what it believes its folder to be
		if other := collect(&c, filepath.Clean(c.Cwd)); !other.equal(x) {
			x.doubt("the working directory is a symlink, and what the command executes depends on how it's understood")
		}
	}
	b.Exe, b.Files, b.Why = x.exe, x.list(), strings.Join(x.why, "; ")
	b.Unique = b.Why == ""
	return b, nil
}

func shellOf(name string) string {
	switch name {
	case "bash", "zsh":
		return name
	}
	return "sh"
}

// Check finds out again what the command is bound to, just before it runs. The error names what has changed since Of: the working directory, a
// file, or that another file would be executed.
func Check(b *Bound) error {
	if b.call.Cwd == "" {
		return errors.New("nothing is known about what the approval is bound to")
	}
	now, err := Of(b.call)
	if err != nil {
		return err
	}
	if now.Cwd != b.Cwd {
		return fmt.Errorf("the working directory %s was %s when the approval was asked for, and is %s now", b.call.Cwd, b.Cwd, now.Cwd)
	}
	if err := sameExe(b.Exe, now.Exe); err != nil {
		return err
	}
	was := map[string]string{}
	for _, f := range b.Files {
		was[f.Path] = f.SHA256
	}
	for _, f := range now.Files {
		switch digest, ok := was[f.Path]; {
		case !ok:
			return fmt.Errorf("%s would be executed now, and wasn't when the approval was asked for", f.Path)
		case digest != f.SHA256:
			return changed(f.Path)
		}
		delete(was, f.Path)
	}
	for _, f := range b.Files { // the first one
		if _, ok := was[f.Path]; ok {
			return fmt.Errorf("%s is gone, can't be read any more, or isn't what would be executed now", f.Path)
		}
	}
	if now.Why != b.Why {
		return fmt.Errorf("what the command executes isn't what it was when the approval was asked for: %s", now.Why)
	}
	return nil
}

func changed(path string) error {
	return fmt.Errorf("%s has changed since the approval was asked for", path)
}

func sameExe(was, now *message.File) error {
	switch {
	case was == nil && now == nil:
		return nil
	case was == nil:
		return fmt.Errorf("%s would be executed now, and wasn't when the approval was asked for", now.Path)
	case now == nil:
		return fmt.Errorf("%s is gone, or can't be read any more", was.Path)
	case was.Path != now.Path:
		return fmt.Errorf("%s would be executed now, and not %s, as when the approval was asked for", now.Path, was.Path)
	case was.SHA256 != now.SHA256:
		return changed(was.Path)
	}
	return nil
}
