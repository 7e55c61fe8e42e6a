package program

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// gitHarmless are the keys of git's configuration, in lower case, with which it runs no program and loads no code, whatever their value. A
// name that ends with "." is a section.
var gitHarmless = lazy.Set(`user. author. committer. color. advice. column. log. status. tag. push. gc. pack. index. pull.rebase pull.ff
	fetch.prune fetch.prunetags fetch.parallel rebase.autosquash rebase.autostash rebase.updaterefs rebase.stat commit. i18n. blame. checkout. stash. versionsort. rerere. format. init.defaultbranch feature. branch.autosetupmerge
	branch.autosetuprebase branch.sort http.version http.postbuffer http.sslverify http.lowspeedlimit http.lowspeedtime http.useragent
	http.extraheader core.quotepath core.autocrlf core.eol core.ignorecase core.longpaths core.preloadindex core.filemode core.symlinks
	core.safecrlf core.abbrev core.compression core.whitespace core.commentchar core.untrackedcache core.precomposeunicode
	core.checkstat core.trustctime core.looseobjectdir core.bigfilethreshold core.excludesfile core.logallrefupdates
	diff.algorithm diff.renames diff.renamelimit diff.context diff.noprefix diff.mnemonicprefix diff.colormoved diff.colormovedws
	diff.submodule diff.relative diff.wserrorhighlight diff.interhunkcontext diff.suppressblankempty diff.indentheuristic
	diff.statgraphwidth diff.ignoresubmodules merge.conflictstyle merge.ff merge.renames merge.renamelimit merge.stat merge.log
	merge.autostash merge.verbosity protocol.version submodule.recurse submodule.fetchjobs transfer.fsckobjects
	transfer.hiderefs transfer.unpacklimit grep.linenumber grep.column grep.patterntype grep.extendedregexp grep.threads grep.fullname
	receive.denycurrentbranch receive.fsckobjects clone.defaultremotename maintenance.auto`)

// gitCommands are the keys whose value is a command line for a shell.
var gitCommands = lazy.Set(`core.pager core.editor sequence.editor core.sshcommand core.askpass diff.external interactive.difffilter
	core.fsmonitor core.gitproxy`)

// gitPagers are those of them to which git adds no words.
var gitPagers = lazy.Set("core.pager interactive.difffilter")

// checkGitConfig is for git -c and the like: KEY=VALUE, or KEY alone, which means true.
func (in *inspection) checkGitConfig(w, shown Word) {
	text := w.certain()
	key, value, ok := strings.Cut(text, "=")
	if !ok && !w.Known {
		in.unclear(shown.Text, "is a setting of git that isn't known")
		return
	}
	key = strings.ToLower(key)
	section, name, _ := strings.Cut(key, ".")
	switch {
	case key == "format.outputdirectory":
		in.file(w.after(min(len(key)+1, len(text))), Write)
	case gitHarmless()[key], gitHarmless()[section+"."] && !strings.Contains(name, "command") && !strings.Contains(name, "cmd") && !strings.Contains(name, "hook"):
	case w.Known && (key == "core.hookspath" && value == "/dev/null" || key == "credential.helper" && ok && value == "" ||
		key == "core.fsmonitor" && (value == "false" || value == "true" || value == "")):
	case gitCommands()[key] || section == "pager" || section == "alias" && strings.HasPrefix(value, "!"):
		n := len(key) + 1
		if section == "alias" {
			n++
		}
		if !ok || w.Known && (value == "" || value == "true" || value == "false") {
			return
		}
		if value := w.after(n); section == "pager" || gitPagers()[key] {
			in.script("sh", value, shown)
		} else {
			in.extended(value, shown)
		}
	default:
		in.unclear(shown.Text, "is a setting with which git can run a program")
	}
}

// applyGitDir is for --git-dir: a folder of another name can be prepared as a repository, whose settings run programs.
func applyGitDir(in *inspection, w, shown Word) {
	if text := strings.TrimSuffix(w.Text, "/"); !w.Known || baseName(text) != ".git" {
		in.unclear(shown.Text, "has settings with which git can run programs")
	}
	in.gitFolders = append(in.gitFolders, w)
}

// gitReads are the commands that change nothing in the repository, and in its files.
var gitReads = lazy.Set(`annotate blame cat-file check-attr check-ignore cherry count-objects describe diff diff-files diff-index diff-tree for-each-ref
	grep log ls-files ls-remote ls-tree merge-base name-rev rev-list rev-parse shortlog show show-branch show-ref status var whatchanged`)

// checkGitURL is for repositories: git runs a program for each TRANSPORT::ADDRESS.
func (in *inspection) checkGitURL(w, shown Word) {
	text := w.certain()
	scheme, rest, isURL := strings.Cut(text, "://")
	host, _, isHost := strings.Cut(text, ":")
	switch {
	case strings.Contains(text, "::") || !w.Known && !isURL && !strings.Contains(text, "/"):
		in.unclear(shown.Text, "can make git run a program")
	case isURL && (scheme == "http" || scheme == "https" || scheme == "ssh" || scheme == "git" || scheme == "file"):
		if w.Known && scheme != "file" {
			if strings.HasPrefix(rest, "-") {
				in.unclear(shown.Text, "can make git run a program")
				return
			}
			in.out.URLs = append(in.out.URLs, URL{w})
		}
	case isURL:
		in.unclear(shown.Text, "can make git run a program")
	case isHost && !strings.Contains(host, "/") && w.Known:
		host = host[strings.LastIndexByte(host, '@')+1:]
		if host == "" || host[0] == '-' || !isPlain(host) {
			in.unclear(shown.Text, "can make git run a program")
			return
		}
		in.out.URLs = append(in.out.URLs, URL{Literal("ssh://" + host)})
	}
}

// takeGitCommand is for git's commands. One that isn't listed may be an alias, or a program named git-COMMAND.
func takeGitCommand(in *inspection, w Word, words []Word) {
	if w.Known && named("git/"+w.Text) == nil {
		in.unclear(w.Text, "isn't a listed command of git: it may be an alias, or another program")
		return
	}
	access := Write
	if gitReads()[w.Text] {
		access = Read
	}
	for _, folder := range in.gitFolders {
		in.file(folder, access)
	}
	takeSubcommand(in, w, words)
}

// gitStrategies are the ways to merge that git has. For another one it runs a program.
var gitStrategies = lazy.Set("ort recursive resolve octopus ours subtree")

func applyGitStrategy(in *inspection, w, shown Word) {
	if !w.Known || !gitStrategies()[w.Text] {
		in.unclear(shown.Text, "isn't a strategy of git: it may be a program")
	}
}

// applyGitPath is for operands that may be files of no repository.
func applyGitPath(in *inspection, w, _ Word) {
	if text := w.certain(); strings.HasPrefix(text, "/") || text == ".." || strings.HasPrefix(text, "../") || w.Home {
		in.file(w, Read)
	}
}

// gitConfigReads are the words with which git config only reads, or only removes.
var gitConfigReads = lazy.Set(`get list unset remove-section --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --list -l
	--unset --unset-all --remove-section get-colorbool`)

// gitConfigValues are its options with a value.
var gitConfigValues = lazy.Set("-f --file --blob --type -t --default --comment --value --url")

// inspectGitConfig is for git config: it's unclear if it writes a setting that isn't harmless.
func inspectGitConfig(in *inspection, words []Word) {
	access := Read
	if in.writesGitConfig(words) {
		access = Write
	}
	for i, w := range words {
		text := w.certain()
		switch file, attached := strings.CutPrefix(text, "--file="); {
		case attached:
			in.file(w.after(len(text)-len(file)), access)
		case text == "-f" || text == "--file":
			if i+1 < len(words) {
				in.file(words[i+1], access)
			}
		case strings.HasPrefix(text, "-f"):
			in.file(w.after(2), access)
		}
	}
}

// plainPagers are pagers that a setting may name, if the policy allows them.
var plainPagers = lazy.Set("cat less more")

// writesGitConfig reports whether git config writes settings.
func (in *inspection) writesGitConfig(words []Word) bool {
	var ops []Word
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case !w.Known && len(ops) < 2:
			in.unclear(w.Text, "may be a setting with which git can run a program")
			return true
		case len(ops) == 0 && gitConfigReads()[w.Text]:
			return strings.Contains(w.Text, "unset") || strings.Contains(w.Text, "remove")
		case strings.HasSuffix(w.Text, "rename-section"):
			in.unclear(w.Text, "can give other settings their effect")
			return true
		case len(ops) == 0 && (w.Text == "-e" || w.Text == "--edit" || w.Text == "edit"):
			in.unclear(w.Text, "starts an editor")
			return true
		case gitConfigValues()[w.Text]:
			i++
		case strings.HasPrefix(w.certain(), "-") && len(ops) < 2, len(ops) == 0 && w.Text == "set":
		default:
			ops = append(ops, w)
		}
	}
	if len(ops) < 2 {
		return false
	}
	if strings.EqualFold(ops[0].Text, "core.pager") && len(ops) == 2 && ops[1].Known && plainPagers()[ops[1].Text] {
		in.script("sh", ops[1], ops[1])
	} else if gitSettingRuns(ops[0].Text) {
		in.unclear(ops[0].Text, "is a setting with which git can run a program")
	}
	return true
}

// gitSettingRuns reports whether git can run a program because of some value of a setting.
func gitSettingRuns(key string) bool {
	in := &inspection{out: new(Effects), name: "git"}
	in.checkGitConfig(Literal(key+"=?"), Literal(key))
	return len(in.out.Unclear)+len(in.out.Scripts)+len(in.out.Files) > 0
}

// applyGitEnvironment is for git --config-env: KEY=VARIABLE.
func applyGitEnvironment(in *inspection, w, shown Word) {
	key := w.certain()
	if i := strings.LastIndexByte(key, '='); i < 0 || gitSettingRuns(key[:i]) {
		in.unclear(shown.Text, "is a setting with which git can run a program")
	}
}

// inspectForeach is for git submodule foreach.
func inspectForeach(in *inspection, words []Word) {
	for len(words) > 0 && words[0].Known && (words[0].Text == "--recursive" || words[0].Text == "--quiet" || words[0].Text == "-q") {
		words = words[1:]
	}
	if len(words) > 0 {
		in.dir = Word{Text: "the folder of each submodule"}
		takeShellWords(in, words[0], words[1:])
	}
}
