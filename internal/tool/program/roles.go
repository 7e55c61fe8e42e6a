package program

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// role is what the value of an option or an operand is. shown is the word of the command line that has it.
type role func(in *inspection, w, shown Word)

var allRoles lazy.Value[map[string]role]

func roles() map[string]role { return allRoles.Get(makeRoles) }

// executing are the roles with which a program runs a program, or loads code.
var executing = map[string]bool{
	"sh": true, "shwith": true, "line": true, "prog": true, "code": true, "runs": true, "load": true, "elsewhere": true, "awk": true, "sed": true,
	"sshopt": true, "gitconf": true, "gitenvconf": true, "fromremote": true, "toremote": true, "perlc": true, "giturl": true, "makevar": true, "ldflags": true, "split": true, "atfile": true, "perlmod": true,
	"module": true, "address": true, "checkpoint": true, "shellvar": true, "remote": true,
	"archive": true, "cmake": true, "cmakevar": true, "linker": true, "gitpager": true, "tracefile": true, "javax": true, "makefile": true, "pager": true, "gitdir": true, "stdin": true,
}

// nones are what a program without operands does, as a phrase that follows its name.
var nones = map[string]string{
	"stdin": "reads its commands from its input",
	"shell": "without a command runs a shell",
}

func makeRoles() map[string]role {
	return map[string]role{
		"_":           func(*inspection, Word, Word) {},
		"done":        func(in *inspection, _, _ Word) { in.used = true },
		"stop":        func(in *inspection, _, _ Word) { in.done, in.used = true, true },
		"read":        func(in *inspection, w, _ Word) { in.file(w, Read) },
		"source":      func(in *inspection, w, _ Word) { in.code(w) },
		"implicit":    func(in *inspection, _, _ Word) { in.executesMore() },
		"list":        func(in *inspection, w, _ Word) { in.file(w, Read) },
		"write":       func(in *inspection, w, _ Word) { in.file(w, Write) },
		"delete":      func(in *inspection, w, _ Word) { in.file(w, Delete) },
		"folder":      func(in *inspection, w, _ Word) { in.dir = inFolder(in.dir, w) },
		"here":        func(in *inspection, _, _ Word) { in.here = true },
		"at":          applyAt,
		"url":         applyURL,
		"saves":       func(in *inspection, _, _ Word) { in.saves = true },
		"savein":      func(in *inspection, w, _ Word) { in.saveIn = append(in.saveIn, w) },
		"reroute":     applyReroute,
		"form":        applyForm,
		"upload":      applyUpload,
		"cookie":      applyCookie,
		"certificate": applyCertificate,
		"env":         applyEnv,
		"unset":       applyUnset,
		"clear":       func(in *inspection, _, _ Word) { in.env = nil },

		"sh":     func(in *inspection, w, shown Word) { in.script("sh", w, shown) },
		"shwith": func(in *inspection, w, shown Word) { in.extended(w, shown) },
		"line":   applyLine,
		"prog":   applyProgram,
		"code":   func(in *inspection, _, s Word) { in.used = true; in.unclear(s.Text, "is code for "+in.name) },
		"runs": func(in *inspection, _, s Word) {
			in.used = true
			in.unclear(s.Text, "can make "+in.name+" run a program")
		},
		"load": func(in *inspection, _, s Word) {
			in.used = true
			in.unclear(s.Text, "is loaded by "+in.name+", and may be code")
		},
		"elsewhere": func(in *inspection, _, s Word) { in.unclear(s.Text, where(in.name)) },
		"stdin":     func(in *inspection, _, _ Word) { in.used = true; in.unclear(in.name, nones["stdin"]) },
		"shell":     func(in *inspection, _, _ Word) { in.used = true; in.unclear(in.name, nones["shell"]) },

		"settings":    func(in *inspection, _, s Word) { in.unclear(s.Text, "has further options for "+in.name) },
		"gitenvconf":  applyGitEnvironment,
		"gitstrategy": applyGitStrategy,
		"gitpath":     applyGitPath,
		"gittree":     func(in *inspection, w, _ Word) { in.gitFolders = append(in.gitFolders, w) },
		"perlword":    applyPerlWord,
		"perlc":       applyPerlUnicode,
		"fromremote":  func(in *inspection, w, s Word) { in.remote(w, s, Read) },
		"toremote":    func(in *inspection, w, s Word) { in.remote(w, s, Write) },
		"configured":  func(in *inspection, _, s Word) { in.unclear(s.Text, "makes git run a program that its settings name") },
		"gitpager":    applyGitPager,
		"chmodmode":   func(*inspection, Word, Word) {},
		"linker":      applyLinker,
		"cmakevar":    applyCMakeVariable,
		"cmake":       applyCMakeTool,
		"kubectl":     applyKubectl,
		"dataat":      applyData,
		"proxy":       applyProxy,
		"listens": func(in *inspection, _, s Word) {
			in.used = true
			in.unclear(s.Text, "makes "+in.name+" wait for connections")
		},
		"orshell":   applyOrShell,
		"lockfile":  applyLockFile,
		"awkfile":   applyAwkFile,
		"direct":    func(in *inspection, _, _ Word) { in.leads = []string{"cmd"} },
		"tracefile": applyTraceFile,
		"javax":     applyJavaOption,
		"pair":      applyPair,
		"pager":     applyPagerCommand,
		"makefile":  applyMakefile,
		"replacement": func(in *inspection, w, _ Word) {
			if in.replace = "{}"; !w.Known || w.Text != "" {
				in.replaceBy(w)
			}
		},

		"appends":   func(in *inspection, _, _ Word) { in.appends = true },
		"replace":   func(in *inspection, w, _ Word) { in.replaceBy(w) },
		"split":     applySplit,
		"redirect":  applyRedirect,
		"awk":       func(in *inspection, w, s Word) { in.checkAwk(w, s) },
		"sed":       applySed,
		"sedbackup": applySedBackup,
		"makevar":   applyMakeVariable,
		"ldflags":   applyLinkerFlags,
		"atfile":    applyAtFile,
		"perlmod":   applyPerlModule,
		"address":   applyAddress,
		"module":    applyModule,
		"shellvar":  applyShellVariable,
		"remote":    func(in *inspection, w, s Word) { in.isRemote(w, s) },
		"tardir": func(in *inspection, w, _ Word) {
			in.tar.directory = append(in.tar.directory, tarFolder{w, len(in.operands)})
		},
		"tartop":   func(in *inspection, w, _ Word) { in.tar.top = append(in.tar.top, w) },
		"removes":  func(in *inspection, _, _ Word) { in.tar.removes = true },
		"creates":  func(in *inspection, _, _ Word) { in.tar.creates = true },
		"extracts": func(in *inspection, _, _ Word) { in.tar.extracts = true },
		"local":    func(in *inspection, _, _ Word) { in.tar.local = true },
		"archive":  applyArchive,
		"gitdir":   applyGitDir,
		"sshopt":   func(in *inspection, w, s Word) { in.checkSSHOption(w, s) },
		"gitconf":  func(in *inspection, w, s Word) { in.checkGitConfig(w, s) },
		"giturl":   func(in *inspection, w, s Word) { in.checkGitURL(w, s) },
		"checkpoint": func(in *inspection, w, s Word) {
			in.checkCheckpoint(w, s)
		},
	}
}

func where(name string) string {
	return "is run by " + name + " elsewhere: outside this sandbox, or on another machine"
}

func applyEnv(in *inspection, w, _ Word) {
	if v, ok := assignment(w); ok {
		in.added = append(in.added, v)
	}
}

// applyUnset is for env -u. A variable that isn't known stays.
func applyUnset(in *inspection, w, _ Word) {
	if in.removed == nil {
		in.removed = map[string]bool{}
	}
	in.removed[w.Text] = in.removed[w.Text] || w.Known
}

// applyLine is for a command line that the program splits by rules of its own, and to which it adds arguments.
func applyLine(in *inspection, w, shown Word) {
	if !w.Known || !isPlain(w.Text) {
		in.used = true
		in.unclear(shown.Text, "is a command line for "+in.name)
		return
	}
	if argv := literals(w.Text); len(argv) > 0 {
		in.call(append(argv, further))
	}
}

// applyProgram is for the name or path of a program that gets unknown arguments.
func applyProgram(in *inspection, w, _ Word) { in.call([]Word{w, further}) }

// applySplit is for env -S, which splits the word, and parses what's in it as if it stood there.
func applySplit(in *inspection, w, shown Word) {
	if !w.Known || !isPlain(w.Text) {
		in.stop(shown.Text, "is a command line that env splits")
		return
	}
	in.words = append(literals(w.Text), in.words...)
}

// applyRedirect is for a file that's written, or a stream: "-" or "/dev/stderr".
func applyRedirect(in *inspection, w, _ Word) {
	if !strings.HasPrefix(w.Text, "/dev/") {
		in.file(w, Write)
	}
}

// applyLinkerFlags is for flags that go passes on to its linker or compiler.
func applyLinkerFlags(in *inspection, w, shown Word) {
	if !w.Known || strings.Contains(w.Text, "ext") || strings.Contains(w.Text, "plugin") || strings.Contains(w.Text, "toolexec") {
		in.unclear(shown.Text, "can make go run a program")
	}
}

// applyAtFile is for operands of which one that begins with "@" is a file with further options.
func applyAtFile(in *inspection, w, shown Word) {
	if text := w.certain(); strings.HasPrefix(text, "@") {
		in.unclear(shown.Text, "is a file with options for "+in.name)
	}
	in.file(w, Read)
}

// applyPerlModule is for perl -M and -m, whose value is put into the program.
func applyPerlModule(in *inspection, w, shown Word) {
	for i := range len(w.Text) {
		if c := w.Text[i]; !isLetter(c) && !isDigit(c) && c != '_' && c != ':' || !w.Known {
			in.unclear(shown.Text, "is code for perl")
			return
		}
	}
}

// applyAddress is for socat's addresses and for others of that form.
func applyAddress(in *inspection, w, shown Word) {
	kind, target, _ := strings.Cut(w.Text, ":")
	switch strings.ToUpper(kind) {
	case "-", "STDIO", "STDIN", "STDOUT":
		return
	case "TCP", "TCP4", "TCP6", "TCP-CONNECT", "TCP4-CONNECT", "OPENSSL", "OPENSSL-CONNECT", "SSL":
		if host, _, _ := strings.Cut(target, ","); w.Known && isPlain(host) {
			in.out.URLs = append(in.out.URLs, URL{Literal("tcp://" + host)})
			if !strings.Contains(target, ",") {
				return
			}
		}
	}
	in.unclear(shown.Text, "is an address of socat that isn't understood")
}

// applyShellVariable is for an option of a debugger or browser that sets a variable: only harmless names are clear.
func applyShellVariable(in *inspection, w, shown Word) {
	if v, ok := assignment(w); !ok || RiskyVariable(v.Name) != Plain {
		in.unclear(shown.Text, "sets a variable that programs obey")
	}
}

// applyModule is for python -m, whose module takes the words that follow.
func applyModule(in *inspection, w, shown Word) {
	words := in.words
	in.done, in.used = true, true
	if !w.Known {
		in.unclear(shown.Text, "is the name of a module, and isn't known")
		return
	}
	in.name = "python -m " + w.Text
	in.executesMore() // a module of this name may be in the folder
	if e := named("python/" + w.Text); e != nil {
		in.done, in.used = false, false
		in.run(e, words)
		in.done = true
	}
}

// remote handles an operand of scp or rsync: HOST:PATH, a URL, or a file.
func (in *inspection) remote(w, shown Word, a Access) {
	if !in.isRemote(w, shown) {
		in.file(w, a)
	}
}

// isRemote reports whether a word names another machine before a colon; it's unclear then, and where it may.
func (in *inspection) isRemote(w, shown Word) bool {
	text := w.certain()
	colon, slash := strings.IndexByte(text, ':'), strings.IndexByte(text, '/')
	switch {
	case colon >= 0 && (slash < 0 || colon < slash):
		in.unclear(shown.Text, "is on another machine")
	case !w.Known && slash < 0:
		in.unclear(shown.Text, "may be on another machine")
	default:
		return false
	}
	return true
}
