package program

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// The rows of testdata/*.txt are "ARGV => EFFECTS". In ARGV, 'text' is literal; "text $x" is one word that isn't known from the $ on; a bare $x
// may become several words; so may a bare pattern (*.go). The effects are those that describe writes, joined by "; ".
func TestInspect(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no tables", err)
	}
	rows := 0
	for _, file := range files {
		text := childtest.ReadFile(t, file)
		for i, line := range strings.Split(string(text), "\n") {
			argv, want, ok := strings.Cut(line, " => ")
			if !ok {
				if line != "" && line[0] != '#' {
					t.Errorf("%s:%d: no row: %s", file, i+1, line)
				}
				continue
			}
			rows++
			if got := describe(Inspect(&Call{Argv: parseWords(argv)})); got != strings.TrimSpace(want) {
				t.Errorf("%s:%d: %s\n got %s\nwant %s", file, i+1, argv, got, want)
			}
		}
	}
	if rows < 300 {
		t.Errorf("%d rows", rows)
	}
}

// describe writes effects as text: what's run, in which folder and with which variables; scripts; files; addresses; what isn't clear.
func describe(e *Effects) string {
	var parts []string
	for _, c := range e.Calls {
		parts = append(parts, "run "+inDir(c.Dir)+describeEnv(c.Env)+describeWords(c.Argv))
	}
	for _, s := range e.Scripts {
		parts = append(parts, s.Shell+" "+inDir(s.Dir)+describeEnv(s.Env)+"'"+s.Text+"'")
	}
	for _, f := range e.Files {
		parts = append(parts, map[Access]string{Read: "read ", Write: "write ", Delete: "delete ", Execute: "execute "}[f.Access]+inDir(f.Dir)+f.Path.Text)
	}
	for _, u := range e.URLs {
		parts = append(parts, "connect "+u.Target.Text)
	}
	for _, u := range e.Unclear {
		parts = append(parts, "unclear "+u.Word)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), "\n", "␤")
}

func inDir(w Word) string {
	if w.Text == "" {
		return ""
	}
	return "in " + w.Text + ": "
}

func describeEnv(env []Variable) (text string) {
	for _, v := range env {
		text += v.Name + "=" + v.Value.Text + " "
	}
	return text
}

func describeWords(words []Word) string {
	var parts []string
	for _, w := range words {
		switch {
		case w.Known && (w.Text == "" || strings.Contains(w.Text, " ")):
			parts = append(parts, "'"+w.Text+"'")
		case w.Known:
			parts = append(parts, w.Text)
		case w.Many:
			parts = append(parts, "<"+w.Prefix+"…>")
		default:
			parts = append(parts, "<"+w.Prefix+">")
		}
	}
	return strings.Join(parts, " ")
}

// parseWords reads the words of a row.
func parseWords(line string) (words []Word) {
	line = strings.ReplaceAll(line, "␤", "\n")
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		var w Word
		w, line = parseWord(line)
		words = append(words, w)
	}
	return words
}

func parseWord(line string) (Word, string) {
	known, many := true, false
	var text, prefix string
	i, quote := 0, byte(0)
	for ; i < len(line) && (quote != 0 || line[i] != ' '); i++ {
		c := line[i]
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			continue
		case quote == c && quote != 0:
			quote = 0
			continue
		case c == '$' && quote != '\'', (c == '*' || c == '?') && quote == 0:
			if known {
				prefix = text
			}
			known = false
			many = many || quote == 0
		}
		text += string(c)
	}
	w := Word{Text: text, Known: known, Prefix: prefix, Many: many}
	return w, line[i:]
}

// TestImplicit checks that each name has an entry.
func TestImplicit(t *testing.T) {
	for name := range implicit() {
		if named(name) == nil {
			t.Errorf("%s isn't in the tables", name)
		}
	}
}
