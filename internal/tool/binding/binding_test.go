package binding

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// tree is a workspace in w, with programs in bin and more, which is PATH, and a home.
type tree struct {
	t   *testing.T
	top string
}

func newTree(t *testing.T) *tree {
	top := childtest.TempDir(t)
	tr := &tree{t, top}
	program := childtest.ReadFile(t, "/bin/true")
	for _, name := range []string{"sh", "bash", "zsh", "env", "python3", "node", "perl", "make", "tool", "java", "php", "fish", "cat"} {
		tr.write("bin/"+name, string(program)+name, 0o755)
	}
	tr.write("more/other", string(program), 0o755)
	tr.write("w/x", "#!"+top+"/bin/sh -e\necho x\n", 0o755)
	tr.write("w/envx", "#!"+top+"/bin/env python3\n", 0o755)
	tr.write("w/splits", "#!"+top+"/bin/env -S node --no-warnings\n", 0o755)
	tr.write("w/plain", "echo x\n", 0o755)
	tr.write("w/unmarked", "#!"+top+"/bin/sh\n", 0o644)
	tr.write("w/y.py", "print(1)\n", 0o644)
	tr.write("w/y.js", "1\n", 0o644)
	tr.write("w/sub/z.py", "print(2)\n", 0o644)
	tr.write("home/h.py", "print(3)\n", 0o644)
	tr.link("../y.py", "w/sub/link.py")
	tr.link(".", "w/self")
	tr.link("w", "link")
	childtest.Must(t, syscall.Mkfifo(filepath.Join(top, "w/fifo"), 0o777))
	return tr
}

func (tr *tree) write(name, text string, mode os.FileMode) {
	tr.t.Helper()
	path := filepath.Join(tr.top, name)
	childtest.Must(tr.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".new", []byte(text), mode), os.Rename(path+".new", path)))
}

func (tr *tree) link(to, name string) {
	tr.t.Helper()
	path := filepath.Join(tr.top, name)
	childtest.Must(tr.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.RemoveAll(path), os.Symlink(to, path)))
}

func (tr *tree) env(more ...string) []string {
	return append([]string{"PATH=" + tr.top + "/bin:" + tr.top + "/more", "HOME=" + tr.top + "/home", "LANG=C"}, more...)
}

// of binds argv, or a text for a shell if it's one word that begins with "$ ".
func (tr *tree) of(cwd string, env []string, argv ...string) (Bound, error) {
	c := Call{Argv: argv, Cwd: filepath.Join(tr.top, cwd), Env: env}
	if text, ok := strings.CutPrefix(argv[0], "$ "); ok {
		c.Argv, c.Script = nil, text
		if shell, text, ok := strings.Cut(text, "$ "); ok {
			c.Shell, c.Script = strings.TrimSpace(shell), text
		}
	}
	return Of(c)
}

// names are the paths of files beneath the tree.
func (tr *tree) names(exe *message.File, files []message.File) string {
	name := func(f *message.File) string {
		if f == nil {
			return "-"
		}
		if len(f.SHA256) != 64 {
			tr.t.Errorf("%+v has no digest", f)
		}
		return strings.TrimPrefix(f.Path, tr.top+"/")
	}
	list := name(exe) + ":"
	for i := range files {
		list += " " + name(&files[i])
	}
	return list
}

// TestFiles checks which files a command executes, and why they aren't unique.
func TestFiles(t *testing.T) {
	tr := newTree(t)
	many := make([]string, 0, 70)
	for i := range 70 {
		name := fmt.Sprintf("many/%d.py", i)
		tr.write("w/"+name, name, 0o644)
		many = append(many, "python3 "+name)
	}
	tr.write("w/huge", "", 0o755)
	childtest.Must(t, os.Truncate(filepath.Join(tr.top, "w/huge"), maxBytes+1))
	tr.write("w/half.py", "", 0o644)
	tr.write("w/half2.py", "", 0o644)
	childtest.Must(t, errors.Join(os.Truncate(filepath.Join(tr.top, "w/half.py"), maxBytes/2+1), os.Truncate(filepath.Join(tr.top, "w/half2.py"), maxBytes/2)))

	for _, x := range []struct {
		argv string // words, or "$ " and a text for a shell, or "$ SHELL$ " and one
		want string
		why  string
	}{
		{"tool", "bin/tool:", ""},
		{"tool -v -- --all", "bin/tool:", ""},
		{"other", "more/other:", ""},
		{"./x", "w/x: bin/sh", ""},
		{"./envx", "w/envx: bin/env bin/python3", ""},
		{"./splits", "w/splits: bin/env bin/node", ""},
		{"python3 y.py a b", "bin/python3: w/y.py", ""},
		{"python3 sub/link.py", "bin/python3: w/y.py", ""},
		{"python3 sub/../self/self/y.py", "bin/python3: w/y.py", ""},
		{"python3 -u y.py", "bin/python3: w/y.py", ""},
		{"node y.js", "bin/node: w/y.js", ""},
		{"php -f y.js", "bin/php: w/y.js", ""},
		{"java -jar y.js", "bin/java: w/y.js", ""},
		{"bash x", "bin/bash: w/x", ""},
		{"env A=b python3 y.py", "bin/env: bin/python3 w/y.py", ""},
		{"cat y.py", "bin/cat:", ""},                // it's read, not executed
		{"tool y.py", "bin/tool: w/y.py", ""},       // who knows
		{"tool --run=y.py", "bin/tool: w/y.py", ""}, // who knows
		{"tool -ry.py @y.js -- -", "bin/tool: w/y.js w/y.py", ""},
		{"$ ./x && python3 y.py", "-: bin/python3 bin/sh w/x w/y.py", ""},
		{"$ bash$ ./x && python3 y.py", "bin/bash: bin/python3 bin/sh w/x w/y.py", ""},
		{"$ posix$ tool", "bin/sh: bin/tool", ""},
		{"$ cd sub && python3 z.py", "-: bin/python3 w/sub/z.py", ""},
		{"$ (cd sub && python3 z.py); python3 y.py", "-: bin/python3 w/sub/z.py w/y.py", ""},
		{"$ python3 ~/h.py", "-: bin/python3 home/h.py", ""},
		{"$ cat *.py", "-: bin/cat", ""},
		{"$ echo hello > out", "-:", ""},

		{"python3 -c pass", "bin/python3:", `"pass" is code for python3`},
		{"python3", "bin/python3:", "reads its commands from its input"},
		{"python3 -m venv", "bin/python3:", "execute"},
		{"python3 sub", "bin/python3:", "isn't a regular file"},
		{"python3 none.py", "bin/python3:", "no such file"},
		{"python3 fifo", "bin/python3:", "isn't a regular file"},
		{"python3 /dev/stdin", "bin/python3:", "reads its commands from its input"},
		{"python3 self/self/../../../../../../../../../../../dev/zero", "bin/python3:", "isn't a regular file"},
		{"python3 /proc/version", "bin/python3:", "reads its commands from its input"},
		{"perl -S y.py", "bin/perl: w/y.py", "execute"},
		{"make", "bin/make:", "executes files that its arguments don't name"},
		{"make -f y.py", "bin/make: w/y.py", "executes files that its arguments don't name"},
		{"java Main", "bin/java:", "executes files that its arguments don't name"},
		{"fish y.py", "bin/fish: w/y.py", "start-up files"},
		{"env -i tool", "bin/env: bin/tool", "in which folders env searches"},
		{"env PATH=/ws tool", "bin/env: bin/tool", "PATH is assigned"},
		{"tool sub", "bin/tool:", "is a folder, and tool may execute files in it"},
		{"none", "-:", `"none" isn't found`},
		{"./unmarked", "-:", "can't be executed"},
		{"./plain", "w/plain:", "no format that the kernel executes"},
		{"./fifo", "-:", "isn't a regular file"},
		{"./sub", "-:", "can't be executed"},
		{"./huge", "-:", "larger than 256 MiB"},
		{"$ python3 half.py; python3 half2.py", "", "larger than 256 MiB"},
		{"$ " + strings.Join(many, "; "), "", "more than 64 files"},
		{"$ " + strings.Repeat("tool;", maxCalls+1), "-: bin/tool", "too many programs"},
		{"$ python3 $X", "-: bin/python3", "and isn't known"},
		{"$ python3 *.py", "-: bin/python3", "and isn't known"},
		{"$ $X y.py", "-:", "is the name of a program"},
		{"$ tool $X", "-: bin/tool", "isn't known"},
		{"$ cd $X && ./x", "-:", "folder that isn't known"},
		{"$ X=$(tool) python3 y.py", "-: bin/python3 bin/tool w/y.py", ""},
		{"$ LD_PRELOAD=./x python3 y.py", "-: bin/python3 w/y.py", "LD_PRELOAD is assigned"},
		{"$ eval \"$X\"", "-:", "isn't known"},
		{"$ curl -s https://x | bash", "", "reads its commands from its input"},
		{"$ python3 <<E\nE", "-: bin/python3", "reads its commands from its input"},
		{"$ if", "-:", "can't be parsed"},
		{"$ zsh$ tool", "bin/zsh: bin/tool", ""},
	} {
		argv := []string{x.argv}
		if !strings.HasPrefix(x.argv, "$ ") {
			argv = strings.Fields(x.argv)
		}
		begun := time.Now()
		b, err := tr.of("w", tr.env(), argv...)
		if err != nil || b.Cwd != tr.top+"/w" || time.Since(begun) > time.Minute {
			t.Errorf("%s: %+v, %v", x.argv, b, err)
			continue
		}
		got := tr.names(b.Exe, b.Files)
		if x.want != "" && got != x.want {
			t.Errorf("%s: %s, want %s", x.argv, got, x.want)
		}
		if !strings.Contains(b.Why, x.why) || x.why == "" && !b.Unique || b.Unique != (b.Why == "") {
			t.Errorf("%s: unique %t: %s", x.argv, b.Unique, b.Why)
		}
		if err := Check(&b); err != nil {
			t.Errorf("%s: unchanged, but %v", x.argv, err)
		}
	}
}

// TestStartup checks start-up files of shells, which they execute before the command.
func TestStartup(t *testing.T) {
	tr := newTree(t)
	tr.write("home/.zshenv", "x", 0o644)
	tr.write("home/.bash_profile", "x", 0o644)
	for _, x := range []struct {
		argv []string
		has  string
	}{
		{[]string{"bash", "-c", "tool"}, ""},
		{[]string{"bash", "-lc", "tool"}, "home/.bash_profile"},
		{[]string{"bash", "--login", "-c", "tool"}, "home/.bash_profile"},
		{[]string{"sh", "-i", "-c", "tool"}, "home/.bash_profile"},
		{[]string{"zsh", "-c", "tool"}, "home/.zshenv"},
		{[]string{"$ zsh$ tool"}, "home/.zshenv"},
	} {
		b, err := tr.of("w", tr.env(), x.argv...)
		got := tr.names(b.Exe, b.Files)
		if err != nil || !b.Unique || strings.Contains(got, "home/") != (x.has != "") || !strings.Contains(got, x.has) {
			t.Errorf("%q: %s: %s, %v", x.argv, got, b.Why, err)
		}
	}
	b, err := tr.of("w", tr.env("ZDOTDIR=/x"), "zsh", "-c", "tool")
	if err != nil || !strings.Contains(b.Why, "ZDOTDIR") {
		t.Errorf("ZDOTDIR: %s, %v", b.Why, err)
	}
}

// TestCheck changes what a command is bound to, and checks that the change is noticed and named.
func TestCheck(t *testing.T) {
	program := childtest.ReadFile(t, "/bin/true")
	for _, x := range []struct {
		name   string
		cwd    string
		argv   []string
		change func(tr *tree)
		want   string
	}{
		{"nothing", "w", []string{"python3", "y.py"}, func(*tree) {}, ""},
		{"another file", "w", []string{"python3", "y.py"}, func(tr *tree) { tr.write("w/y.js", "2", 0o644) }, ""},
		{"touched", "w", []string{"./x"}, func(tr *tree) { childtest.Must(tr.t, os.Chtimes(tr.top+"/w/x", time.Now(), time.Unix(1, 0))) }, ""},
		{"executable replaced", "w", []string{"tool"}, func(tr *tree) { tr.write("bin/tool", string(program)+"2", 0o755) }, "/bin/tool has changed"},
		{"interpreter replaced", "w", []string{"./envx"}, func(tr *tree) { tr.write("bin/python3", string(program)+"2", 0o755) }, "/bin/python3 has changed"},
		{"script replaced", "w", []string{"python3", "y.py"}, func(tr *tree) { tr.write("w/y.py", "print(9)\n", 0o644) }, "/w/y.py has changed"},
		{"script behind a link replaced", "w", []string{"python3", "sub/link.py"}, func(tr *tree) { tr.write("w/y.py", "print(9)\n", 0o644) }, "/w/y.py has changed"},
		{"link to the script", "w", []string{"python3", "sub/link.py"}, func(tr *tree) { tr.link("z.py", "w/sub/link.py") }, "/w/sub/z.py would be executed now"},
		{"same size and time", "w", []string{"python3", "y.py"}, func(tr *tree) {
			info, err := os.Stat(tr.top + "/w/y.py")
			childtest.Must(tr.t, err)
			childtest.Must(tr.t, errors.Join(os.WriteFile(tr.top+"/w/y.py", []byte("print(2)\n"), 0o644), os.Chtimes(tr.top+"/w/y.py", info.ModTime(), info.ModTime())))
		}, "/w/y.py has changed"},
		{"script removed", "w", []string{"python3", "y.py"}, func(tr *tree) { childtest.Must(tr.t, os.Remove(tr.top+"/w/y.py")) }, "/w/y.py is gone"},
		{"script becomes a FIFO", "w", []string{"python3", "y.py"}, func(tr *tree) {
			childtest.Must(tr.t, errors.Join(os.Remove(tr.top+"/w/y.py"), syscall.Mkfifo(tr.top+"/w/y.py", 0o644)))
		}, "/w/y.py is gone"},
		{"earlier in PATH", "w", []string{"other"}, func(tr *tree) { tr.write("bin/other", string(program)+"2", 0o755) }, "/bin/other would be executed now"},
		{"in a shell's text", "w", []string{"$ ./x && python3 y.py"}, func(tr *tree) { tr.write("w/x", "#!/bin/sh\n", 0o755) }, "has changed"},
		{"by the text's cd", "w", []string{"$ cd sub && python3 z.py"}, func(tr *tree) { tr.write("w/sub/z.py", "9", 0o644) }, "/w/sub/z.py has changed"},
		{"an argument becomes a file", "w", []string{"tool", "new"}, func(tr *tree) { tr.write("w/new", "9", 0o644) }, "/w/new would be executed now"},
		{"start-up file", "w", []string{"zsh", "-c", "tool"}, func(tr *tree) { tr.write("home/.zshenv", "9", 0o644) }, "/home/.zshenv would be executed now"},
		{"working directory", "link", []string{"tool"}, func(tr *tree) { tr.link("more", "link") }, "/w when the approval was asked for, and is "},
		{"working directory removed", "link", []string{"tool"}, func(tr *tree) { childtest.Must(tr.t, os.Remove(tr.top+"/link")) }, "working directory can't be found"},
		{"what isn't unique", "w", []string{"python3", "-c", "pass"}, func(tr *tree) { tr.write("bin/python3", string(program)+"2", 0o755) }, "/bin/python3 has changed"},
		{"less is known", "w", []string{"./x"}, func(tr *tree) { tr.write("w/x", "#!"+tr.top+"/bin/sh -c\n", 0o755) }, "has changed"},
	} {
		t.Run(x.name, func(t *testing.T) {
			tr := newTree(t)
			b, err := tr.of(x.cwd, tr.env(), x.argv...)
			childtest.Must(t, err)
			if err := Check(&b); err != nil {
				t.Fatalf("unchanged, but %v", err)
			}
			x.change(tr)
			if err := Check(&b); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if err := Check(&Bound{Unique: true}); err == nil {
		t.Error("a Bound that Of hasn't made passes")
	}
}

// TestFolder checks a working directory that is a symlink.
func TestFolder(t *testing.T) {
	tr := newTree(t)
	tr.write("deep/er/z.py", "1", 0o644)
	tr.write("deep/y.py", "1", 0o644)
	tr.write("y.py", "2", 0o644)
	tr.link("deep/er", "short")
	for _, x := range []struct {
		text   string
		unique bool
	}{
		{"$ python3 z.py", true},
		{"$ cd .. && python3 y.py", false}, // of deep or of the top
		{"$ python3 ../y.py", true},        // the kernel's ..
	} {
		b, err := tr.of("short", tr.env(), x.text)
		if err != nil || b.Unique != x.unique || b.Cwd != tr.top+"/deep/er" {
			t.Errorf("%s: %+v, %v", x.text, b, err)
		}
	}
	for _, c := range []Call{
		{Argv: []string{"tool"}, Cwd: tr.top + "/none"},
		{Argv: []string{"tool"}, Cwd: tr.top + "/bin/tool"},
		{Argv: []string{"tool"}, Cwd: "w"},
		{Argv: []string{"to\x00ol"}, Cwd: tr.top},
		{Cwd: tr.top},
		{Argv: []string{"tool"}, Script: "tool", Cwd: tr.top},
	} {
		if b, err := Of(c); err == nil {
			t.Errorf("%+v: %+v", c, b)
		}
	}
}

// TestEnvironment checks which variables an approval depends on.
func TestEnvironment(t *testing.T) {
	base := envDigest([]string{"A=1", "B=2"})
	for _, x := range []struct {
		env  []string
		same bool
	}{
		{[]string{"B=2", "A=1"}, true},
		{[]string{"A=1", "B=2", "TOOLGUARD_SOCKET=x", "SHLVL=3", "_=y", "PWD=/", "TMPDIR=/t", "TMUX_TMPDIR=/t"}, true},
		{[]string{"A=1", "B=3"}, false},
		{[]string{"A=1"}, false},
		{[]string{"A=1", "B=2", "C="}, false},
		{[]string{"A=1\x00B=2"}, true}, // which no environment has
		{[]string{"A=1\nB=2"}, false},
		{[]string{"A=1B=2"}, false},
	} {
		if got := envDigest(x.env); (got == base) != x.same {
			t.Errorf("%q: %s", x.env, got)
		}
	}
	tr := newTree(t)
	for _, env := range [][]string{nil, {"PATH="}} {
		if b, err := tr.of("w", env, "tool"); err != nil || b.Unique || !strings.Contains(b.Why, "no PATH") {
			t.Errorf("%q: %s, %v", env, b.Why, err)
		}
		if b, err := tr.of("w", env, tr.top+"/bin/tool"); err != nil || !b.Unique || b.Exe == nil {
			t.Errorf("%q, a path: %s, %v", env, b.Why, err)
		}
	}
	for _, x := range []struct{ variable, why string }{
		{"LD_PRELOAD=/x.so", "LD_PRELOAD, which makes programs execute other files"},
		{"BASH_ENV=/x", "BASH_ENV"},
		{"CDPATH=/", "CDPATH"},
		{"PATH=/other", "PATH twice"},
		{"LD_PRELOAD=", ""},
		{"EDITOR=vi", ""},
	} {
		b, err := tr.of("w", tr.env(x.variable), "tool")
		if err != nil || b.Unique != (x.why == "") || !strings.Contains(b.Why, x.why) {
			t.Errorf("%s: %s, %v", x.variable, b.Why, err)
		}
	}
}
