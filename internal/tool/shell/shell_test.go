package shell

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/program"
)

var update = flag.Bool("update", false, "write the effects into testdata")

var dialectNames = map[string]Dialect{"bash": Bash, "sh": POSIX, "zsh": Zsh}

// TestRows compares the effects of the scripts in testdata. A line "bash$ script" begins a row, lines with "> " continue the script, and
// the other lines are its effects.
func TestRows(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	rows := 0
	for _, name := range files {
		text := childtest.ReadFile(t, name)
		var got strings.Builder
		var script, dialect string
		flush := func() {
			if dialect != "" {
				rows++
				fmt.Fprint(&got, render(Analyze(&program.Script{Text: script}, dialectNames[dialect])))
				dialect = ""
			}
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			head, tail, found := strings.Cut(line, "$ ")
			switch {
			case found && dialectNames[head] != 0:
				flush()
				dialect, script = head, tail
			case strings.HasPrefix(line, "> "):
				script += "\n" + line[2:]
			case line == "", strings.HasPrefix(line, "# "):
				flush()
			default:
				continue
			}
			fmt.Fprintln(&got, line)
		}
		flush()
		if *update {
			childtest.Must(t, os.WriteFile(name, []byte(got.String()), 0o600))
		}
		compareLines(t, name, string(text), got.String())
	}
	if rows < 250 {
		t.Errorf("testdata has %d rows", rows)
	}
}

// TestEveryday requires that of the scripts in everyday.txt, 98 of 100 are clear in bash, and most in zsh.
func TestEveryday(t *testing.T) {
	text := childtest.ReadFile(t, "testdata/everyday.txt")
	clear, rows := map[Dialect]int{}, 0
	for row := range strings.SplitSeq(string(text), "\n\n") {
		script, _, _ := strings.Cut(strings.TrimPrefix(row, "bash$ "), "\n  ")
		rows++
		for _, d := range []Dialect{Bash, Zsh} {
			if e := Analyze(&program.Script{Text: strings.ReplaceAll(script, "\n> ", "\n")}, d); len(e.Unclear) == 0 {
				clear[d]++
			} else {
				t.Logf("%d: %s\n%v", d, script, e.Unclear)
			}
		}
	}
	if rows < 100 || clear[Bash]*100 < rows*98 || clear[Zsh]*100 < rows*90 {
		t.Errorf("of %d scripts, %d are clear in bash and %d in zsh", rows, clear[Bash], clear[Zsh])
	}
}

func compareLines(t *testing.T, name, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Errorf("%s:%d:\n got %s\nwant %s", name, i+1, g[i], w[i])
			return
		}
	}
	if len(w) != len(g) {
		t.Errorf("%s: %d lines instead of %d", name, len(g), len(w))
	}
}

// render writes effects, one a line. A word that isn't known is in ‹›, after the beginning that is, with * for Many.
func render(e *program.Effects) string {
	var b strings.Builder
	for _, c := range e.Calls {
		fmt.Fprintf(&b, "  run%s%s%s\n", renderEnv(c.Env), renderWords(c.Argv), renderDir(c.Dir))
	}
	for _, s := range e.Scripts {
		fmt.Fprintf(&b, "  %s%s %q%s\n", s.Shell, renderEnv(s.Env), s.Text, renderDir(s.Dir))
	}
	for _, f := range e.Files {
		fmt.Fprintf(&b, "  %s%s%s\n", map[program.Access]string{program.Read: "read", program.Write: "write"}[f.Access], renderWords([]program.Word{f.Path}), renderDir(f.Dir))
	}
	for _, u := range e.URLs {
		fmt.Fprintf(&b, "  connect%s\n", renderWords([]program.Word{u.Target}))
	}
	for _, u := range e.Unclear {
		fmt.Fprintf(&b, "  unclear %s: %s\n", u.Word, u.Why)
	}
	if b.Len() == 0 {
		return "  nothing\n"
	}
	return b.String()
}

func renderEnv(env []program.Variable) string {
	var b strings.Builder
	for _, v := range env {
		fmt.Fprintf(&b, " %s=%s", v.Name, renderWords([]program.Word{v.Value})[1:])
	}
	return b.String()
}

func renderWords(words []program.Word) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteByte(' ')
		text, tail := w.Text, ""
		if !w.Known {
			text, tail = w.Prefix, "‹"+strings.ReplaceAll(w.Text, "\n", "⏎")+"›"
			if w.Many {
				tail += "*"
			}
		}
		if w.Home {
			b.WriteString("HOME")
			text = text[1:]
		}
		if text == "" && w.Known && !w.Home || strings.ContainsAny(text, " \n\t'\"\\$~") {
			text = strconv.Quote(text)
		}
		b.WriteString(text + tail)
	}
	return b.String()
}

func renderDir(dir program.Word) string {
	if dir == program.Literal("") {
		return ""
	}
	return " in" + renderWords([]program.Word{dir})
}
