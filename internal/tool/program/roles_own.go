package program

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// This file has the roles of single programs.

// applyGitPager is for git grep -O: a pager, or the one of the settings.
func applyGitPager(in *inspection, w, shown Word) {
	if w.Known && w.Text == "" {
		in.unclear(shown.Text, "makes git run a program that its settings name")
	} else {
		in.extended(w, shown)
	}
}

// applyLinker is for gcc -W: of the flags for the linker, those that name plug-ins or a file with options.
func applyLinker(in *inspection, w, shown Word) {
	if text := w.certain(); !w.Known && len(text) < 2 || strings.HasPrefix(text, "l,") && (!w.Known || strings.ContainsAny(text, "@") ||
		strings.Contains(text, "plug") || strings.Contains(text, "-dynamic-linker") || strings.Contains(text, "-I")) {
		in.unclear(shown.Text, "can make "+in.name+" load a program")
	}
}

// applyCMakeVariable is for cmake -D NAME:TYPE=VALUE.
func applyCMakeVariable(in *inspection, w, shown Word) {
	name, _, _ := strings.Cut(w.certain(), "=")
	name, _, _ = strings.Cut(name, ":")
	for _, part := range []string{"COMPILER", "LAUNCHER", "PROGRAM", "COMMAND", "LINKER", "TOOLCHAIN", "INCLUDE", "PREFIX_PATH", "MODULE_PATH", "EXECUTABLE", "FLAGS", "PROJECT_", "_AR", "_RULE"} {
		if strings.Contains(name, part) || name == "" {
			in.unclear(shown.Text, "can make cmake run a program")
			return
		}
	}
}

var kubectlElsewhere = lazy.Set("exec cp run attach debug port-forward proxy edit plugin apply create delete patch replace")

func applyKubectl(in *inspection, w, _ Word) {
	if kubectlElsewhere()[w.Text] {
		in.unclear(w.Text, where(in.name))
	}
}

// applyOrShell is for programs that run a shell unless an option names a command.
func applyOrShell(in *inspection, _, _ Word) {
	if !in.used {
		in.unclear(in.name, nones["shell"])
	}
}

// applyLockFile is for flock: a file, or the number of a descriptor.
func applyLockFile(in *inspection, w, _ Word) {
	if strings.Trim(w.Text, "0123456789") != "" {
		in.file(w, Write)
	}
}

// applyAwkFile is for awk's operands: files, and assignments.
func applyAwkFile(in *inspection, w, _ Word) {
	if _, ok := assignment(w); !ok {
		in.file(w, Read)
	}
}

// applyTraceFile is for strace -o: a file, or "|" or "!" and a command.
func applyTraceFile(in *inspection, w, shown Word) {
	switch text := w.certain(); {
	case strings.HasPrefix(text, "|"), strings.HasPrefix(text, "!"):
		in.script("sh", w.after(1), shown)
	case !w.Known && text == "":
		in.unclear(shown.Text, "is a file or a command line for "+in.name+", and isn't known")
	default:
		in.file(w, Write)
	}
}

// applyJavaOption is for java -X and -XX.
func applyJavaOption(in *inspection, w, shown Word) {
	for _, part := range []string{"OnError", "OnOutOfMemory", "Flags", "OptionsFile", "bootclasspath", "DumpPath"} {
		if !w.Known || strings.Contains(w.Text, part) {
			in.unclear(shown.Text, "can make java run a program")
			return
		}
	}
}

// applyPair is for an option with two values, the second of which is the next word.
func applyPair(in *inspection, _, _ Word) {
	if len(in.words) > 0 {
		in.words = in.words[1:]
	}
}

// applyPagerCommand is for less +COMMAND: movements and searches are harmless.
func applyPagerCommand(in *inspection, w, shown Word) {
	text := strings.TrimPrefix(w.certain(), "+")
	if !w.Known || text != "" && strings.IndexByte("/?FGg", text[0]) < 0 && strings.Trim(text, "0123456789gGp%") != "" {
		in.unclear(shown.Text, "is a command for "+in.name)
	}
}

// applyMakefile is for make -f.
func applyMakefile(in *inspection, w, _ Word) { takeScript(in, w, nil) }

// applyCMakeTool is for cmake -E, whose commands take the words that follow.
func applyCMakeTool(in *inspection, w, shown Word) {
	in.done = true
	if !w.Known || w.Text == "env" || w.Text == "time" || w.Text == "chdir" {
		in.unclear(shown.Text, "makes cmake run a program")
	}
}

// applyPerlWord is for values of perl's options after which a space begins further options.
func applyPerlWord(in *inspection, w, shown Word) {
	if !w.Known || strings.ContainsAny(w.Text, " \t\n") {
		in.stop(shown.Text, "may have code for perl")
	}
}

// applyPerlUnicode is for perl -C: anything but its own letters is further options.
func applyPerlUnicode(in *inspection, w, shown Word) {
	if !w.Known || strings.Trim(w.Text, "IOEioADSLa0123456789") != "" {
		in.stop(shown.Text, "may have code for perl")
	}
}

// applySedBackup is for sed -i: if the suffix of the backup has a "*" and a "/", it's a path.
func applySedBackup(in *inspection, w, shown Word) {
	before, _, _ := strings.Cut(w.certain(), "*")
	slash := strings.LastIndexByte(w.Text, '/')
	switch {
	case w.Known && slash < 0:
	case w.Known && slash < len(before):
		in.file(Word{Text: w.Text, Prefix: before}, Write)
	default:
		in.unclear(shown.Text, "may be the path of a backup")
	}
}
