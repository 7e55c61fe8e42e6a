package program

import "strings"

// inspectTar is for tar, whose first word may be options without a dash: the values of these are the words that follow, in order.
func inspectTar(in *inspection, words []Word) {
	e := named("tar/options")
	if len(words) > 0 {
		first := words[0]
		text := first.certain()
		if !first.Known && !strings.HasPrefix(text, "-") {
			in.unclear(first.Text, "may be an option with which tar runs a program, and isn't known")
			return
		}
		if text != "" && text[0] != '-' {
			words = undashed(e, text, words[1:])
		}
	}
	in.run(e, words)
	in.finishTar()
}

// undashed writes options without a dash as options with one.
func undashed(e *entry, letters string, rest []Word) (words []Word) {
	for i := range len(letters) {
		name := "-" + letters[i:i+1]
		words = append(words, Literal(name))
		if o := e.options[name]; o != nil && o.value == hasValue && len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	return append(words, rest...)
}

// tarring is what one tar does.
type tarring struct {
	archive   []Word
	directory []tarFolder
	top       []Word // of --one-top-level
	creates   bool
	removes   bool
	extracts  bool
	local     bool
}

// tarFolder is one of -C, which is relative to the one before it, and counts for the operands after it.
type tarFolder struct {
	name     Word
	operands int // before it
}

// applyArchive is for tar -f: a file, or HOST:FILE, which tar reaches with another program.
func applyArchive(in *inspection, w, _ Word) { in.tar.archive = append(in.tar.archive, w) }

func (in *inspection) finishTar() {
	t := &in.tar
	for _, w := range t.archive {
		switch {
		case !t.local && in.isRemote(w, w):
		case t.creates:
			in.file(w, Write)
		default:
			in.file(w, Read)
		}
	}
	dir := in.dir
	switch {
	case t.creates:
		in.tarSources()
	case t.extracts:
		in.tarTargets()
	}
	in.dir = dir
}

// tarSources adds what goes into an archive.
func (in *inspection) tarSources() {
	folders := in.tar.directory
	for i, w := range in.operands {
		for len(folders) > 0 && folders[0].operands <= i {
			in.dir, folders = inFolder(in.dir, folders[0].name), folders[1:]
		}
		if in.file(w, Read); in.tar.removes {
			in.file(w, Delete)
		}
	}
}

// tarTargets adds the folders into which an archive is extracted.
func (in *inspection) tarTargets() {
	if len(in.tar.directory) == 0 && in.elsewhere() {
		in.file(Literal("."), Write)
	}
	for _, d := range in.tar.directory {
		in.file(d.name, Write)
		in.dir = inFolder(in.dir, d.name)
	}
	for _, w := range in.tar.top {
		in.file(w, Write)
	}
}

// checkCheckpoint is for tar --checkpoint-action.
func (in *inspection) checkCheckpoint(w, shown Word) {
	text := w.certain()
	switch {
	case strings.HasPrefix(text, "exec="):
		in.script("sh", w.after(len("exec=")), shown)
	case !w.Known && !strings.Contains(text, "="):
		in.unclear(shown.Text, "can make tar run a program")
	}
}
