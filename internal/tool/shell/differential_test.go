package shell

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/program"
)

var (
	scripts = flag.Int("scripts", 120, "how many generated scripts TestDifferential runs in each shell")
	seed    = flag.Uint64("seed", 1, "the seed of the generated scripts")
)

// stubLog names the file to which the test binary, as a stub for each program of a script, writes what it was executed as.
const stubLog = "SHELL_TEST_STUB_LOG"

// execution is one execution of a stub.
type execution struct {
	Argv []string
	Dir  string
	Env  []string
}

// stubs are the programs of the scripts, with what they print and their exit status.
var stubs = map[string]struct {
	out    string
	status int
}{
	"a": {}, "b": {"x", 0}, "c": {"", 1}, "d": {}, "e": {}, "f": {}, "ls": {}, "p": {}, "q": {"a b", 0}, "no": {"", 1}, "name": {"p", 0}, "opt": {"-v", 0}, "sub": {"-v a[$(hidden)]", 0}, "hidden": {}, "glob": {"*", 0},
	"assign": {"PATH=.", 0}, "rem": {}, "num": {"3", 0}, "nl": {"x\ny", 0}, "cmd": {"hidden a", 0}, "quote": {"';hidden;'", 0},
}

func TestMain(m *testing.M) {
	if log := os.Getenv(stubLog); log != "" {
		os.Exit(stub(log))
	}
	os.Exit(m.Run())
}

func stub(log string) int {
	dir, _ := os.Getwd()
	line, _ := json.Marshal(execution{os.Args, dir, os.Environ()})
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 99
	}
	defer f.Close()
	fmt.Fprintf(f, "%s\n", line)
	s := stubs[filepath.Base(os.Args[0])]
	fmt.Println(s.out)
	return s.status
}

// playground is a folder with stubs in which scripts run.
type playground struct {
	root, bin, work, log string
	runs                 int
}

func newPlayground(t *testing.T) *playground {
	t.Helper()
	root := t.TempDir()
	p := &playground{root: root, bin: filepath.Join(root, "bin"), work: filepath.Join(root, "home/w/k")}
	self, err := os.Executable()
	childtest.Must(t, err)
	for name := range stubs {
		link(t, self, filepath.Join(p.bin, name))
		link(t, self, filepath.Join(p.root, "home", name))
	}
	return p
}

func link(t *testing.T, old, name string) {
	t.Helper()
	childtest.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	childtest.Must(t, os.Symlink(old, name))
}

// run runs a script and returns the executions and the files that it created.
func (p *playground) run(t *testing.T, shell []string, script string) (executed []execution, created []string) {
	t.Helper()
	os.RemoveAll(p.work)
	p.runs++
	p.log = filepath.Join(p.root, fmt.Sprint("log", p.runs))
	defer os.Remove(p.log)
	for _, dir := range []string{"d", "e/d"} {
		childtest.Must(t, os.MkdirAll(filepath.Join(p.work, dir), 0o755))
	}
	for _, file := range []string{"f", "g h", "d/f", "-v", p.log} {
		if !filepath.IsAbs(file) {
			file = filepath.Join(p.work, file)
		}
		childtest.Must(t, os.WriteFile(file, nil, 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell[0], append(shell[1:], script)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.work, p.env(), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if cmd.Start() == nil {
		_ = cmd.Wait()
		_ = cmd.Cancel() // what the script left in the background
	}
	log := childtest.ReadFile(t, p.log)
	for line := range strings.Lines(string(log)) {
		var e execution
		childtest.Must(t, json.Unmarshal([]byte(line), &e))
		executed = append(executed, e)
	}
	_ = filepath.WalkDir(p.work, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(p.work, path)
		if err == nil && !d.IsDir() && !slices.Contains([]string{"f", "g h", "d/f", "-v"}, rel) {
			created = append(created, path)
		}
		return nil
	})
	return executed, created
}

func (p *playground) env() []string {
	return []string{"PATH=" + p.bin, "HOME=" + filepath.Join(p.root, "home"), "PWD=" + p.work, "K=start", stubLog + "=" + p.log, "LC_ALL=C.UTF-8"}
}

// check returns what a shell did that an analysis doesn't have, or "".
func (p *playground) check(e *program.Effects, executed []execution, created []string) string {
	for _, x := range executed {
		if !slices.ContainsFunc(e.Calls, func(c program.Call) bool { return p.isCall(c, x) }) {
			return fmt.Sprintf("%q in %s with %q was executed", x.Argv, x.Dir, p.changed(x.Env))
		}
	}
	for _, path := range created {
		if !slices.ContainsFunc(e.Files, func(f program.File) bool {
			return f.Access == program.Write && (!f.Dir.Known || p.matches(f.Path, path, p.dir(f.Dir)))
		}) {
			return path + " was created"
		}
	}
	return ""
}

func (p *playground) isCall(c program.Call, x execution) bool {
	if dir := p.dir(c.Dir); dir != "" && dir != x.Dir {
		return false
	}
	for _, v := range p.changed(x.Env) {
		name, text, _ := strings.Cut(v, "=")
		i := len(c.Env) - 1
		for i >= 0 && c.Env[i].Name != name {
			i--
		}
		if i < 0 || !p.matches(c.Env[i].Value, text, "") {
			return false
		}
	}
	return p.matchArgv(c.Argv, x.Argv)
}

// dir returns a directory of an analysis as a path, "" for one that isn't known.
func (p *playground) dir(d program.Word) string {
	switch {
	case !d.Known:
		return ""
	case d.Home:
		return filepath.Join(p.root, "home", d.Text[1:])
	case filepath.IsAbs(d.Text):
		return d.Text
	}
	return filepath.Join(p.work, d.Text)
}

func (p *playground) changed(env []string) (changed []string) {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(p.env(), v) && !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_", "LOGNAME"}, name) {
			changed = append(changed, v)
		}
	}
	return changed
}

func (p *playground) matchArgv(words []program.Word, argv []string) bool {
	if len(words) == 0 {
		return len(argv) == 0
	}
	if words[0].Many {
		if p.matchArgv(words[1:], argv) {
			return true
		}
		return len(argv) > 0 && p.matches(words[0], argv[0], "") && (p.matchArgv(words, argv[1:]) || p.matchArgv(words[1:], argv[1:]))
	}
	return len(argv) > 0 && p.matches(words[0], argv[0], "") && p.matchArgv(words[1:], argv[1:])
}

func (p *playground) matches(w program.Word, text, dir string) bool {
	want := w.Text
	if !w.Known {
		want = w.Prefix
	}
	if w.Home {
		want = filepath.Join(p.root, "home") + want[1:]
	} else if dir != "" && !filepath.IsAbs(want) {
		want = filepath.Join(dir, want)
	}
	if w.Known {
		return want == text
	}
	return strings.HasPrefix(text, want)
}

// analyze works through the scripts of an analysis as the gate does.
func analyze(script *program.Script, d Dialect) *program.Effects {
	e := Analyze(script, d)
	for i := 0; i < len(e.Scripts) && i < 100; i++ {
		e.Add(Analyze(&e.Scripts[i], d))
	}
	return e
}

var realShells = []struct {
	dialect Dialect
	command []string
}{
	{Bash, []string{"bash", "--norc", "--noprofile", "-c"}}, {POSIX, []string{"dash", "-c"}}, {Zsh, []string{"zsh", "-f", "-c"}},
}

// harmful matches scripts that could do something outside the playground.
var harmful = regexp.MustCompile(`(^|[^A-Za-z0-9.~"'}E])/|\.\.|~[^/ ;&|)"'=:]|\\x2|\\0?57|\\u|kill|ulimit|/dev/|while (true|:|a|getopts)|until (false|no|c)|f; }; f`)

// TestDifferential compares the analysis of generated scripts, and of the rows, with what the shells themselves execute.
func TestDifferential(t *testing.T) {
	for _, shell := range realShells {
		t.Run(shell.command[0], func(t *testing.T) {
			if _, err := exec.LookPath(shell.command[0]); err != nil {
				t.Skip("needs " + shell.command[0])
			}
			differential(t, shell.dialect, shell.command)
		})
	}
}

func differential(t *testing.T, dialect Dialect, shell []string) {
	p := newPlayground(t)
	random := rand.New(rand.NewPCG(*seed, uint64(dialect)))
	texts := rows(t, dialect)
	for i, known := 0, len(texts); i < *scripts; i++ {
		g := &generator{Rand: random, dialect: dialect}
		if i%3 == 0 {
			texts = append(texts, g.change(texts[g.IntN(known)]))
			continue
		}
		texts = append(texts, g.script())
	}
	clear, executed := 0, 0
	for i, text := range texts {
		if harmful.MatchString(text) {
			continue
		}
		e := analyze(&program.Script{Text: text}, dialect)
		if len(e.Unclear) > 0 {
			continue
		}
		x, created := p.run(t, shell, text)
		if wrong := p.check(e, x, created); wrong != "" {
			t.Errorf("script %d: %s\n%s\n%s", i, wrong, text, render(e))
		}
		clear++
		executed += len(x)
	}
	t.Logf("%d of %d scripts are clear, %d programs executed", clear, len(texts), executed)
	if clear < *scripts/10 || executed < *scripts/10 {
		t.Error("too few scripts are clear")
	}
}

// rows returns the scripts in testdata, with stubs as programs.
func rows(t *testing.T, d Dialect) (texts []string) {
	t.Helper()
	for _, name := range []string{"attacks", "lists", "redirects", "words"} {
		text := childtest.ReadFile(t, "testdata/"+name+".txt")
		for row := range strings.SplitSeq(string(text), "\n\n") {
			dialect, script, _ := strings.Cut(row, "$ ")
			if dialectNames[dialect] == d {
				script, _, _ = strings.Cut(script, "\n  ")
				texts = append(texts, strings.ReplaceAll(script, "\n> ", "\n"))
			}
		}
	}
	return texts
}
