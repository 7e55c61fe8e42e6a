package program

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// findValues are the tests and actions of find with one argument.
var findValues = lazy.Set(`-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size -mtime -mmin
	-atime -amin -ctime -cmin -newer -anewer -cnewer -samefile -user -group -uid -gid -perm -inum -links -fstype -maxdepth -mindepth -printf
	-regextype -used -context -files0-from -fprint -fprint0 -fls -flags -Bmin -mnewer`)

// findRuns are the actions with a command.
var findRuns = lazy.Set("-exec -execdir -ok -okdir")

// finder is one command line of find.
type finder struct {
	*inspection
	starts []Word
	rest   []Word
}

// inspectFind is for find: starting points, then an expression.
func inspectFind(in *inspection, words []Word) {
	f := &finder{inspection: in, rest: words}
	f.skipOptions()
	if f.startingPoints() {
		for len(f.rest) > 0 && f.expression() {
		}
	}
}

// skipOptions skips what comes before the starting points.
func (f *finder) skipOptions() {
	for len(f.rest) > 0 {
		switch w := f.rest[0]; {
		case w.Known && (w.Text == "-H" || w.Text == "-L" || w.Text == "-P" || w.Text == "-E" || w.Text == "-X" || w.Text == "--" || strings.HasPrefix(w.Text, "-O")):
			f.rest = f.rest[1:]
		case w.Known && w.Text == "-D":
			f.rest = f.rest[min(2, len(f.rest)):]
		default:
			return
		}
	}
}

func (f *finder) startingPoints() bool {
	for len(f.rest) > 0 {
		w := f.rest[0]
		text := w.certain()
		if text == "" && !w.Known || w.splits() {
			return f.unsure(w)
		}
		if text != "" && strings.IndexByte("-(),!", text[0]) >= 0 {
			break
		}
		f.starts = append(f.starts, w)
		f.file(w, Read)
		f.rest = f.rest[1:]
	}
	if len(f.starts) == 0 {
		f.starts = []Word{Literal(".")}
		if f.elsewhere() && f.dir.Known {
			f.file(f.starts[0], Read)
		}
	}
	return true
}

func (f *finder) unsure(w Word) bool {
	f.unclear(w.Text, "may be an action with which find runs a program, and isn't known")
	return false
}

// expression takes one test or action; it returns false if nothing that follows is certain.
func (f *finder) expression() bool {
	w := f.rest[0]
	f.rest = f.rest[1:]
	if !w.Known {
		return f.unsure(w)
	}
	values := 0
	switch {
	case findRuns()[w.Text]:
		return f.command(w.Text)
	case w.Text == "-delete":
		f.delete(w)
	case w.Text == "-fprintf":
		values = 2
	case findValues()[w.Text], strings.HasPrefix(w.Text, "-newer") && len(w.Text) == len("-newerXY"):
		values = 1
	}
	for i := range min(values, len(f.rest)) {
		v := f.rest[i]
		if v.Many {
			return f.unsure(v)
		}
		if i == 0 && (strings.HasPrefix(w.Text, "-fprint") || w.Text == "-fls") {
			applyRedirect(f.inspection, v, v)
		}
	}
	if w.Text == "-files0-from" {
		f.starts = nil // not known
	}
	f.rest = f.rest[min(values, len(f.rest)):]
	return true
}

// delete adds what -delete deletes: files of the starting points.
func (f *finder) delete(w Word) {
	if len(f.starts) == 0 {
		f.unclear(w.Text, "deletes files that aren't known")
	}
	for _, s := range f.starts {
		f.file(s, Delete)
	}
}

// command takes the command of -exec and the like up to its end.
func (f *finder) command(action string) bool {
	end, many := len(f.rest), false
	for i, w := range f.rest {
		plus := w.Known && w.Text == "+" && i > 0
		if plus && !f.rest[i-1].Known {
			return f.unsure(f.rest[i-1])
		}
		if many = plus && f.rest[i-1].Text == "{}"; many || w.Known && w.Text == ";" {
			end = i
			break
		}
	}
	argv := f.rest[:end]
	f.rest = f.rest[min(end+1, len(f.rest)):]
	acts := false // a later word may be an action, if a word before it ended the command
	for _, w := range slices.Backward(argv) {
		if w.Many || !w.Known && strings.Trim(w.Prefix, ";+{}") == "" && acts {
			return f.unsure(w)
		}
		acts = acts || mayAct(w)
	}
	if len(argv) > 0 {
		f.emit(action, argv, many)
	}
	return true
}

// mayAct reports whether a word may be an action of find.
func mayAct(w Word) bool {
	text := w.certain()
	return !w.Known && text == "" || strings.HasPrefix(text, "-exec") || strings.HasPrefix(text, "-ok") || strings.HasPrefix(text, "-f")
}

// beneath is how the names of what find finds begin, but for the starting point itself.
func beneath(start Word) string {
	if start.Known && start.Text != "" && !strings.HasSuffix(start.Text, "/") {
		return start.Text + "/"
	}
	return start.certain()
}

// emit adds the calls of an action: one for each of a few starting points, as the names that are found begin with theirs.
func (f *finder) emit(action string, argv []Word, many bool) {
	dir := f.dir
	starts := f.starts
	switch {
	case strings.HasSuffix(action, "dir"):
		f.dir = Word{Text: "the folder of each file that find finds"}
		starts = []Word{Literal("./")}
	case len(starts) == 0 || len(starts) > 16:
		starts = []Word{{}}
	}
	for _, s := range starts {
		call := make([]Word, len(argv))
		for i, w := range argv {
			call[i] = w.without("{}")
			if strings.HasPrefix(w.certain(), "{}") {
				call[i].Prefix = beneath(s)
				call[i].Many = many
			}
		}
		f.call(call)
	}
	f.dir = dir
}
