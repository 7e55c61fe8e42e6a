package program

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// taker is the role of an operand that takes all further words.
type taker func(in *inspection, w Word, words []Word)

// parser is for programs whose words are of no common form.
type parser func(in *inspection, words []Word)

var (
	allTakers  lazy.Value[map[string]taker]
	allParsers lazy.Value[map[string]parser]
)

func takers() map[string]taker   { return allTakers.Get(makeTakers) }
func parsers() map[string]parser { return allParsers.Get(makeParsers) }

func makeTakers() map[string]taker {
	return map[string]taker{
		"cmd":       takeCommand,
		"cmd+":      takeCommandWithInput,
		"cmdelse":   takeCommandElsewhere,
		"envcmd":    takeEnvCommand,
		"shwords":   takeShellWords,
		"lockcmd":   takeLockedCommand,
		"numbercmd": takeNumberCommand,
		"pycmd":     takePythonCommand,
		"npmcmd":    takeNPMCommand,
		"class":     takeClass,
		"gofile":    takeGoFile,
		"script":    takeScript,
		"sub":       takeSubcommand,
		"gitsub":    takeGitCommand,
		"applet":    takeApplet,
		"remotecmd": takeRemoteCommand,
		"hostport":  takeHostPort,
	}
}

func makeParsers() map[string]parser {
	return map[string]parser{
		"ip":        inspectIP,
		"find":      inspectFind,
		"tar":       inspectTar,
		"shell":     inspectShell,
		"parallel":  inspectParallel,
		"gitconfig": inspectGitConfig,
		"foreach":   inspectForeach,
		"elsewhere": func(in *inspection, _ []Word) { in.unclear(in.name, where(in.name)) },
		"runs":      func(in *inspection, _ []Word) { in.unclear(in.name, "runs programs that its arguments don't name") },
		"code":      func(in *inspection, _ []Word) { in.unclear(in.name, "may execute code in its arguments or its input") },
		"bundle":    inspectExpression,
		"interval":  func(in *inspection, words []Word) { in.run(named("watch/options"), words) },
	}
}

func takeCommand(in *inspection, w Word, words []Word) {
	in.call(append([]Word{w}, words...))
}

// takeCommandElsewhere is for a command that runs under another root, or is started by another process.
func takeCommandElsewhere(in *inspection, w Word, words []Word) {
	takeCommand(in, w, words)
	in.unclear(w.Text, where(in.name))
}

// takeCommandWithInput is for xargs, which adds its input, or puts it where the command has a certain text.
func takeCommandWithInput(in *inspection, w Word, words []Word) {
	argv := append([]Word{w}, words...)
	input := Word{Text: "input of " + in.name, Many: true}
	if in.replace == "" {
		in.call(append(argv, input))
		return
	}
	for i := range argv {
		argv[i] = argv[i].without(in.replace)
	}
	in.call(argv)
	if in.appends {
		in.call(append(slices.Clone(argv), input))
	}
}

// without returns the word, not known from the text on that is to be replaced.
func (w Word) without(text string) Word {
	if i := strings.Index(w.certain(), text); i >= 0 {
		return Word{Text: w.Text, Prefix: w.certain()[:i], Many: w.Many}
	}
	return w
}

// replaceBy sets what the input replaces.
func (in *inspection) replaceBy(w Word) {
	if in.replace = w.Text; !w.Known || w.Text == "" {
		in.stop(w.Text, "is what the input replaces in the command, and isn't known")
	}
}

// takeEnvCommand is for programs whose command may have assignments before it: env and sudo.
func takeEnvCommand(in *inspection, w Word, words []Word) {
	for {
		v, ok := assignment(w)
		if !ok && strings.Contains(w.certain(), "=") {
			in.unclear(w.Text, "sets a variable of an unusual name")
			ok = true
		} else if ok {
			in.added = append(in.added, v)
		}
		if !ok {
			takeCommand(in, w, words)
			return
		}
		if w.Many {
			in.unclear(w.Text, "may be several words, of which one is the name of a program")
		}
		if len(words) == 0 {
			if in.none != "" {
				in.unclear(in.name, nones[in.none])
			}
			return
		}
		w, words = words[0], words[1:]
	}
}

// takeShellWords is for programs that join their words to a text for sh.
func takeShellWords(in *inspection, w Word, words []Word) {
	var text []string
	for _, w := range append([]Word{w}, words...) {
		if !w.Known {
			in.unclear(w.Text, "is a part of a command line for sh, and isn't known")
			return
		}
		text = append(text, w.Text)
	}
	in.script("sh", Literal(strings.Join(text, " ")), w)
}

// takeLockedCommand is for flock: a command, or -c with a text for a shell.
func takeLockedCommand(in *inspection, w Word, words []Word) {
	if w.Known && (w.Text == "-c" || w.Text == "--command") && len(words) > 0 {
		in.script("sh", words[0], words[0])
	} else {
		takeCommand(in, w, words)
	}
}

// takeNumberCommand is for chrt: a priority, which some versions let users leave out, and a command.
func takeNumberCommand(in *inspection, w Word, words []Word) {
	switch {
	case !w.Known:
		in.unclear(w.Text, "is a priority or the name of a program, and isn't known")
	case strings.Trim(w.Text, "0123456789") != "":
		takeCommand(in, w, words)
	case len(words) > 0:
		takeCommand(in, words[0], words[1:])
	}
}

// takePythonCommand is for programs that run a command, or a script of Python.
func takePythonCommand(in *inspection, w Word, words []Word) {
	if w.Known && (w.Text == "-" || strings.HasSuffix(w.Text, ".py") || strings.Contains(w.Text, "://")) {
		takeScript(in, w, words)
	} else {
		takeCommand(in, w, words)
	}
}

// takeNPMCommand is for npm exec, which also takes options after the command, up to "--".
func takeNPMCommand(in *inspection, w Word, words []Word) {
	for _, o := range words {
		text := o.certain()
		if o.Known && text == "--" {
			break
		}
		if !o.Known && text == "" || strings.HasPrefix(text, "-c") || strings.HasPrefix(text, "--c") || strings.HasPrefix(text, "--s") || strings.HasPrefix(text, "--n") {
			in.unclear(o.Text, "may be an option with which "+in.name+" runs a program")
		}
	}
	takeCommand(in, w, words)
}

// takeClass is for java: a class, a source file, or a file with further options.
func takeClass(in *inspection, w Word, _ []Word) {
	switch {
	case !w.Known:
		in.unclear(w.Text, "is a program for java, and isn't known")
	case strings.HasPrefix(w.Text, "@"):
		in.unclear(w.Text, "is a file with options for java")
	case strings.HasSuffix(w.Text, ".java"):
		in.code(w)
	default:
		in.executesMore()
	}
}

// takeGoFile is for go run: files or a package.
func takeGoFile(in *inspection, w Word, _ []Word) {
	if !w.Known {
		in.unclear(w.Text, "is a program for go, and isn't known")
	} else if strings.HasSuffix(w.Text, ".go") {
		in.code(w)
	}
}

// takeScript is for interpreters: the file that they execute, whose arguments say nothing here.
func takeScript(in *inspection, w Word, _ []Word) {
	switch {
	case !w.Known:
		in.unclear(w.Text, "is a script for "+in.name+", and isn't known")
	case w.Text == "-", strings.HasPrefix(w.Text, "/dev/") || strings.HasPrefix(w.Text, "/proc/"):
		in.unclear(in.name, nones["stdin"])
	case strings.Contains(w.Text, "://"):
		in.unclear(w.Text, "is code from another machine")
	default:
		in.code(w)
	}
}

// takeSubcommand is for programs of which each command has an entry. One without has no effects.
func takeSubcommand(in *inspection, w Word, words []Word) {
	if !w.Known {
		in.unclear(w.Text, "is a command of "+in.name+", and isn't known")
		return
	}
	parent := in.entry.name
	e := named(parent + "/" + w.Text)
	if e == nil {
		e = named(parent + "/*")
	}
	if e == nil {
		return
	}
	in.name += " " + w.Text
	in.used = false
	in.run(e, words)
	in.done, in.used = true, true
}

// takeApplet is for programs that contain others.
func takeApplet(in *inspection, w Word, words []Word) {
	if !w.Known {
		in.unclear(w.Text, "is the name of a program, and isn't known")
		return
	}
	in.call(append([]Word{w}, words...)) // so that the rules about the program decide on the applet, too
	in.done = true
}

// takeRemoteCommand is for ssh: a host, and what runs there.
func takeRemoteCommand(in *inspection, w Word, words []Word) {
	if w.Known {
		host := w.Text[strings.LastIndexByte(w.Text, '@')+1:]
		host = strings.TrimPrefix(host, "ssh://")
		if host != "" && isPlain(host) {
			in.out.URLs = append(in.out.URLs, URL{Literal("ssh://" + host)})
		}
	}
	in.words = words // ssh takes options after the host, too
	for len(in.words) > 0 {
		w := in.words[0]
		if text := w.certain(); !w.Known && text == "" || !strings.HasPrefix(text, "-") || text == "-" {
			break
		}
		in.words = in.words[1:]
		if in.done = false; w.Text == "--" {
			break
		}
		if in.short(w); in.done {
			return
		}
	}
	in.done = true
	if len(in.words) > 0 {
		in.unclear(in.words[0].Text, where(in.name))
	} else {
		in.unclear(w.Text, "is another machine, on which ssh runs a shell")
	}
}

// takeHostPort is for nc: a host and a port.
func takeHostPort(in *inspection, w Word, words []Word) {
	for _, option := range words {
		if !option.Known || strings.HasPrefix(option.Text, "-") {
			in.unclear(option.Text, "may be an option with which "+in.name+" runs a program")
			return
		}
	}
	if w.Known && len(words) == 1 && isPlain(w.Text) && isPlain(words[0].Text) {
		in.out.URLs = append(in.out.URLs, URL{Literal("tcp://" + w.Text + ":" + words[0].Text)})
	}
}
