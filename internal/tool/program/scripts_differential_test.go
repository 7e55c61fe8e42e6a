package program

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// scriptPieces are what random scripts are made of: commands, and what may change where they begin and end.
var scriptPieces = map[string][]string{
	"sed": {
		"e MARK", "s/x*/MARK/e", "s/t/MARK/;e", "p", "d", "s/a/b/", "s/[/]/x/", "s/[^/]*$//", "s,/,[,", "y/abc/xyz/", "s/\\//[/g", "s/[\\/]/x/", "s/[]/]/x/",
		"s/[[:a/", "s/[[:alpha:]/]/x/", "a\\", "a text", "i\\text", "c\\\ntext", "a\\\n", ":a", "ba", "b", "t", "/x/", "/[/]/", "\\,[,],", "1", "$", "1,$", "2q", "{", "}", "}", ";", "\n", "\n",
		" ", "!", "#", "w /dev/null", "r file", "\\", "/", "[", "]", "=", "l 5", "v", "z", "F", "n", "N;P", "s/a/b/w /dev/null\n", "s/a/\\\n/", "s/\n/a/", "\\n",
		"#n\n", "a\\\\", "a x\\", "a x\\\\", "y/[/]/", "s/a/b/I;", "/a/I,+1", "0~2", "~", "{p;", "s/\\[/]/", "s/a\\/b/e/", "s|e|/|", "s/./MARK/ge;", "s/[\\]/]/",
	},
	"awk": {
		`print "x" | "MARK"`, `print "x" > "out"`, `"MARK" | getline`, "{", "}", "(", ")", "/", "/a/", "/[/]/", `/"/`, `"`, `"a"`, `"/"`, `"\""`, "$1", "x = 1", ";", "\n", "BEGIN", "END", "BEGIN{", "print",
		"||", "|", ">", "1 > 2", "if (1 > 0)", "return", "a / b", "a /", "#", " ", "!", "~", ",", "in", "++", "\\", "[", "]", "printf", "x[1]", "while (0)", "function f() {",
	},
}

// TestScriptsDifferential runs random scripts with the real sed and awk: where one executes the marker, its code must be unclear.
func TestScriptsDifferential(t *testing.T) {
	rounds := 250
	if n, err := strconv.Atoi(os.Getenv("TOOLGUARD_SCRIPTS")); err == nil {
		rounds = n
	}
	for name, pieces := range scriptPieces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := scene(t)
			r := rand.New(rand.NewPCG(1, 2))
			ran, clear := 0, 0
			for i := range rounds {
				mark := filepath.Join(dir, "mark"+strconv.Itoa(i))
				argv := []string{name, randomScript(r, name, pieces, mark), "file"}
				found := findsMarker(argv, mark)
				if !found {
					clear++
				}
				if !runMarker(t, dir, argv, mark) {
					continue
				}
				if ran++; !found {
					t.Errorf("%q runs the marker, and is clear", argv)
				}
			}
			if t.Logf("of %d scripts, %d ran the marker, and %d are clear", rounds, ran, clear); ran < rounds/20 || clear < rounds/50 {
				t.Errorf("of %d scripts, only %d ran the marker, and %d are clear", rounds, ran, clear)
			}
		})
	}
}

// randomScript joins pieces, mostly as commands of their own; one of the first executes something.
func randomScript(r *rand.Rand, name string, pieces []string, mark string) string {
	var b strings.Builder
	n := 1 + r.IntN(5)
	at := r.IntN(n)
	for i := range n {
		p := pieces[r.IntN(len(pieces))]
		if i == at && r.IntN(4) > 0 {
			p = pieces[r.IntN(3)]
			if name == "awk" && r.IntN(2) > 0 {
				p = "BEGIN{" + p + "}"
			}
		}
		b.WriteString(p)
		if r.IntN(3) > 0 {
			b.WriteString([]string{";", "\n"}[r.IntN(2)])
		}
	}
	return strings.ReplaceAll(b.String(), "MARK", mark)
}
