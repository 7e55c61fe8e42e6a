package binding

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/printable"
	"github.com/toolguard/toolguard/internal/tool/message"
	"github.com/toolguard/toolguard/internal/tool/program"
	"github.com/toolguard/toolguard/internal/tool/shell"
)

// collector finds the files of one command.
type collector struct {
	call  *Call
	dir   string // absolute
	exe   *message.File
	files map[string]*content // by the path without symlinks
	bytes int64
	calls int
	why   []string
}

// tooMany is why a command isn't looked at any further.
const tooMany = "the command runs too many programs, or has too many words"

// maxWhy is how many reasons are given.
const maxWhy = 3

// doubt notes why the files aren't unique.
func (c *collector) doubt(why string) {
	if why = printable.Clean(why); len(c.why) < maxWhy && !slices.Contains(c.why, why) {
		c.why = append(c.why, why)
	}
}

func collect(call *Call, dir string) *collector {
	c := &collector{call: call, dir: dir, files: map[string]*content{}}
	c.environment()
	if call.Script == "" {
		argv := make([]program.Word, 0, len(call.Argv))
		for _, w := range call.Argv {
			argv = append(argv, program.Literal(w))
		}
		c.exe = c.run(&program.Call{Argv: argv, Dir: program.Literal(dir)}, 0)
		return c
	}
	if name := call.Shell; name == "bash" || name == "zsh" || name == "posix" {
		name = shellOf(name)
		c.exe = c.lookUp(name, program.Literal(dir), 0)
		c.startup(name, nil)
	}
	c.script(&program.Script{Text: call.Script, Shell: call.Shell, Dir: program.Literal(dir)}, 0)
	return c
}

// list returns the files without the executable, by path.
func (c *collector) list() []message.File {
	list := []message.File{}
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		if c.exe == nil || path != c.exe.Path {
			list = append(list, message.File{Path: path, SHA256: c.files[path].sha256})
		}
	}
	return list
}

func (c *collector) equal(o *collector) bool {
	return reflect.DeepEqual(c.exe, o.exe) && slices.Equal(c.list(), o.list()) && slices.Equal(c.why, o.why)
}

// script binds what a text for a shell executes. If it depends on the shell, and that isn't known, the files aren't unique.
func (c *collector) script(s *program.Script, depth int) {
	if c.calls++; c.calls > maxCalls || depth > maxDepth {
		c.doubt(tooMany)
		return
	}
	var all []*program.Effects
	for _, d := range shell.Dialects(filepath.Base(s.Shell)) {
		e := shell.Analyze(s, d)
		if !slices.ContainsFunc(all, func(o *program.Effects) bool { return reflect.DeepEqual(o, e) }) {
			all = append(all, e)
			c.effects(e, depth)
		}
	}
	if len(all) > 1 {
		c.doubt("the command means something else in another shell")
	}
}

// effects binds what a text or a program is known to execute.
func (c *collector) effects(e *program.Effects, depth int) {
	for _, u := range slices.Concat(e.Unclear, e.Implicit) {
		c.doubt(quote(u.Word) + " " + u.Why)
	}
	for i := range e.Files {
		if f := &e.Files[i]; f.Code {
			c.word(f.Path, f.Dir)
		}
	}
	for i := range e.Calls {
		c.run(&e.Calls[i], depth+1)
	}
	for i := range e.Scripts {
		c.script(&e.Scripts[i], depth+1)
	}
}

// run binds the executable of a program, and what the program executes.
func (c *collector) run(p *program.Call, depth int) *message.File {
	c.calls++
	switch first := p.Argv[0]; {
	case c.calls > maxCalls || depth > maxDepth || len(p.Argv) > maxWords:
		c.doubt(tooMany)
		return nil
	case !first.Known:
		c.doubt(quote(first.Text) + " is the name of a program, and isn't known")
		return nil
	}
	name, ok := c.text(p.Argv[0])
	if !ok {
		return nil
	}
	for _, v := range p.Env {
		if !v.Value.Known && program.RiskyVariable(v.Name) != program.Plain || v.Value.Known && program.HarmfulValue(v.Name, v.Value.Text) {
			c.doubt(v.Name + " is assigned, and programs load or execute what it names")
		}
	}
	exe := c.lookUp(name, p.Dir, depth)
	c.effects(program.Inspect(p), depth)
	c.startup(filepath.Base(name), p.Argv[1:])
	c.ownSearch(filepath.Base(name), p.Argv[1:])
	c.executesOthers(name)
	if !program.Listed(name) {
		c.arguments(name, p)
	}
	return exe
}

// ownSearch doubts programs that search for others elsewhere than in PATH.
func (c *collector) ownSearch(name string, args []program.Word) {
	switch name {
	case "sudo", "doas", "su", "runuser", "pkexec", "systemd-run", "busybox", "toybox":
		c.doubt(name + " searches for programs in its own way")
	case "env":
		for _, w := range args {
			switch {
			case !strings.HasPrefix(w.Text, "-"):
				return
			case strings.HasPrefix(w.Text, "-S"), w.Text == "-C", w.Text == "--":
			default:
				c.doubt(quote(w.Text) + " may change in which folders env searches for programs")
				return
			}
		}
	}
}

// arguments binds each file that is an argument of a program which isn't known: it may execute it.
func (c *collector) arguments(name string, p *program.Call) {
	for _, w := range p.Argv[1:] {
		if !w.Known {
			c.doubt(fmt.Sprintf("%s is an argument of %s that isn't known", quote(w.Text), filepath.Base(name)))
			return
		}
		text, ok := c.text(w)
		if !ok {
			return
		}
		for _, v := range values(text) {
			c.argument(name, v, p.Dir)
		}
	}
}

// values are the names of files that an argument may have: itself, and after an option or "@".
func values(text string) []string {
	list := []string{text}
	if strings.HasPrefix(text, "@") {
		list = append(list, text[1:])
	}
	if !strings.HasPrefix(text, "-") {
		return list
	}
	if _, after, ok := strings.Cut(text, "="); ok {
		list = append(list, after)
	}
	if len(text) > 2 {
		list = append(list, text[2:])
	}
	return list
}

func (c *collector) argument(name, text string, dir program.Word) {
	path, ok := c.path(text, dir)
	if !ok || text == "" {
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)):
	case err == nil && info.IsDir():
		c.doubt(fmt.Sprintf("%s is a folder, and %s may execute files in it", quote(text), filepath.Base(name)))
	default:
		c.bind(path)
	}
}

// text is the value of a known word.
func (c *collector) text(w program.Word) (string, bool) {
	if !w.Home {
		return w.Text, true
	}
	home := c.variable("HOME")
	if home == "" {
		c.doubt(quote(w.Text) + " is in a home that isn't known")
		return "", false
	}
	return home + strings.TrimPrefix(w.Text, "~"), true
}

// path joins a path with the folder of a command. The kernel follows the symlinks in it.
func (c *collector) path(name string, dir program.Word) (string, bool) {
	if filepath.IsAbs(name) {
		return name, true
	}
	if dir.Text == "" && !dir.Known { // the zero Word
		return c.dir + "/" + name, true
	}
	text, ok := "", false
	if dir.Known {
		text, ok = c.text(dir)
	}
	if !ok {
		c.doubt(quote(name) + " is relative to a folder that isn't known")
		return "", false
	}
	if !filepath.IsAbs(text) {
		text = c.dir + "/" + text
	}
	return text + "/" + name, true
}

// word binds a file that a command executes.
func (c *collector) word(w, dir program.Word) {
	text, ok := c.text(w)
	if !w.Known {
		c.doubt(quote(w.Text) + " is a script, and isn't known")
		return
	}
	if path, known := c.path(text, dir); ok && known {
		c.bind(path)
	}
}

// lookUp binds a program by its name, as execvp(3) finds it, and the interpreter in its first line.
func (c *collector) lookUp(name string, dir program.Word, depth int) *message.File {
	search := c.variable("PATH")
	if search == "" && !strings.Contains(name, "/") { // execvp(3) and shells have different defaults
		c.doubt("the environment has no PATH, in which " + quote(name) + " is found")
		return nil
	}
	for _, file := range fspath.Candidates(search, name) {
		path, ok := c.path(file, dir)
		if !ok {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil {
			if strings.Contains(name, "/") {
				break
			}
			continue
		}
		real, found := c.bind(path)
		if found == nil {
			return nil
		}
		c.interpreter(path, found.head, dir, depth)
		return &message.File{Path: real, SHA256: found.sha256}
	}
	c.doubt("the program " + quote(name) + " isn't found, or can't be executed")
	return nil
}

// interpreter binds what the kernel executes for a script.
func (c *collector) interpreter(path string, head []byte, dir program.Word, depth int) {
	line, isScript := strings.CutPrefix(string(head), "#!")
	if !isScript {
		if !executable(head) {
			c.doubt(quote(path) + " has no format that the kernel executes, so that another program executes it")
		}
		return
	}
	line, _, whole := strings.Cut(line, "\n")
	name, arg, _ := strings.Cut(strings.Trim(line, " \t"), " ")
	if first, rest, ok := strings.Cut(name, "\t"); ok {
		name, arg = first, rest+" "+arg
	}
	if !whole && len(head) == maxHead || name == "" || depth > maxDepth {
		c.doubt(quote(path) + " has no first line that names an interpreter")
		return
	}
	argv := []program.Word{program.Literal(name)}
	if arg = strings.Trim(arg, " \t"); arg != "" {
		argv = append(argv, program.Literal(arg))
	}
	c.run(&program.Call{Argv: append(argv, program.Literal(path)), Dir: dir}, depth+1)
}

// executable reports whether a file begins as a program of Linux or macOS.
func executable(head []byte) bool {
	return slices.ContainsFunc([]string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"}, func(magic string) bool {
		return strings.HasPrefix(string(head), magic)
	})
}

// bind digests a file. It's nil if that can't be done, and the files aren't unique then.
func (c *collector) bind(path string) (real string, found *content) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		c.doubt(fmt.Sprintf("%s can't be read: %v", quote(path), reason(err)))
		return "", nil
	}
	if found := c.files[real]; found != nil {
		return real, found
	}
	if len(c.files) == maxFiles {
		c.doubt(fmt.Sprintf("the command executes more than %d files", maxFiles))
		return "", nil
	}
	found, err = digest(real, maxBytes-c.bytes)
	if err != nil {
		c.doubt(fmt.Sprintf("%s can't be read: %v", quote(path), err))
		return "", nil
	}
	c.bytes += found.size
	c.files[real] = found
	return real, found
}

// quote shows a word in a message.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return `"` + s + `"`
}
