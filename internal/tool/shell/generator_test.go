package shell

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes scripts of what shells read differently: quotes in quotes, expansions, here-documents, nested commands.
type generator struct {
	*rand.Rand
	dialect Dialect
	depth   int
	docs    []string // here-documents that begin after the current line
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// pieces are parts of words, taken by chance and joined.
var pieces = []string{
	"a", "b", "f", "d", "x y", "$x", "${x}", `"$x"`, "$X", "$y", `\`, "'", `"`, "`", "*", "?", "[a]", "~", "~/a", "$HOME", "{a,b}", "{", "}", ",", "=",
	"#", "$(p a)", "`p a`", `"$(p b)"`, "$((1+1))", "$((x))", "$(", ")", "(", "$'a'", `$'\n'`, `$'\''`, `$"a"`, "${x:-a}", "${x:-'a'}", `"${x:-'$(p c)'}"`,
	"${x:=b}", "${#x}", "${x%a}", "${x/a/b}", "$@", `"$@"`, "$1", "$?", "$#", "\\\n", "$\\\n", "\"$\\\n(p j)\"", "\\\n(", "<(p z)", "!", "@(a)", "-v", "--", "\t", "$", "&", "$[1]", "^", "$x[1]",
	"${x:-$(p i)}", `"${x:-"a b"}"`, `'a'\''b'`, "'$(hidden)'", `"a\"b"`, `"a\\"`, `"\$x"`, "a=b", "a=~", "é", "x=(1 2)", "%", "..", "{1..3}", "${x}}", "a#b",
	"=p", "(N)", "$PWD", `"$PWD/a"`, "${x-<(hidden)}", "${K+>(hidden)}", "${x#<(hidden)}", "$x{a,b}", "{$,x}", "{a..c}", "$\"a\"",
}

var clean = []string{
	"a", "b", "f", "d", "$x", `"$x"`, "$X", `"$y"`, "*", "~/a", "$HOME/b", "{a,b}", "$(p a)", `"$(p b)"`, "$((1+1))", "'a b'", `"a $x b"`, `\$`, "${x:-a}", "$?",
	"`p a`", "--a=$x", "-v", "'{a,b}'", "a{1..3}", "x=y", "\"$(q)\"", "$(q)", "$(sub)", `"${y:-q}"`, `"$@"`, `"\\"`, "<(p z)", "a\\ b",
}

func (g *generator) word() string {
	if g.IntN(4) > 0 {
		return pick(g, clean...)
	}
	var b strings.Builder
	for range 1 + g.IntN(4) {
		b.WriteString(pick(g, pieces...))
	}
	return b.String()
}

func (g *generator) words(n int) string {
	var all []string
	for range g.IntN(n + 1) {
		all = append(all, g.word())
	}
	return strings.Join(all, " ")
}

func (g *generator) script() string {
	g.depth = 0
	text := g.list("\n")
	if g.IntN(6) == 0 {
		return g.change(text)
	}
	return text
}

// change puts something in one position of a script.
func (g *generator) change(text string) string {
	i := g.IntN(len(text) + 1)
	return text[:i] + pick(g, pieces...) + text[min(len(text), i+g.IntN(3)):]
}

func (g *generator) list(separator string) string {
	var b strings.Builder
	for range 1 + g.IntN(3) {
		b.WriteString(g.statement())
		b.WriteString(pick(g, separator, separator, "; ", " && ", " || ", " | "))
	}
	b.WriteString(g.simple())
	b.WriteString(g.flush())
	return b.String()
}

// flush returns the end of the line and the here-documents that begin after it.
func (g *generator) flush() string {
	docs := strings.Join(g.docs, "")
	g.docs = nil
	if docs == "" {
		return ""
	}
	return "\n" + docs
}

func (g *generator) statement() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 3 || g.IntN(3) > 0 {
		return g.simple()
	}
	inner := func() string { return g.list("\n") }
	switch g.IntN(16) {
	case 0:
		return "(" + inner() + "\n)"
	case 1:
		return "{ " + inner() + "\n}"
	case 2:
		return "if " + g.simple() + "\nthen " + inner() + "\nelse " + inner() + "\nfi"
	case 3:
		return "for x in " + g.words(3) + "\ndo " + inner() + "\ndone"
	case 4:
		return "case " + g.word() + " in\n" + pick(g, "a", "*", "(a", "$x", "a|b", `"$x"`, "[a]") + ") " + inner() + "\n;; esac"
	case 5:
		return pick(g, "h", "rem", "h", "p") + "() { " + inner() + "\n}"
	case 6:
		return pick(g, "h", "h a", "rem b")
	case 7:
		return "p \"$(" + inner() + "\n)\""
	case 8:
		return "eval " + pick(g, "'p e'", `"p $x"`, "'x=1'", "p e", `"$x"`, `'p "$x"'`, "'cd d'", "'rem() { hidden; }'")
	case 9:
		return "! " + g.simple()
	case 10:
		return "while no\ndo " + inner() + "\ndone"
	case 11:
		return g.simple() + " &\nwait"
	case 12:
		return "trap " + pick(g, "'p t' EXIT", "h EXIT", "- EXIT", `"p $x" EXIT`, "'x=3' EXIT")
	case 13:
		return "until p\ndo " + inner() + "\ndone"
	case 14:
		return "for x in a b\ndo " + inner() + "\ndone"
	}
	return "x=$(" + inner() + "\n)"
}

func (g *generator) simple() string {
	switch g.IntN(25) {
	case 14:
		return pick(g, "export", "read", "readonly", "unset", "declare", "unset -f", "command export", "mapfile", "read -ra", "getopts x") + " " +
			pick(g, "x", "y=p", "{x,y}", "$y", "$y=p", "{x,y}=p", "h", "rem", "p", "\"$x\"") + pick(g, "", " <<<hidden", " <f", " <nofile")
	case 15:
		return pick(g, "{ x=p; }", "x=q", "export x=hidden", "{ rem() { :; }; }", "if { x=hidden; } <&9; then :; fi", "exit", "cd d", "time { x=p; }") +
			pick(g, " <nofile", " <&9", " >nodir/x", " <f") + pick(g, "", " || x=hidden", " && p", "; $x", "\nrem", "; rem")
	case 16:
		return pick(g, "e=export; $e x=p", "p() { :; }; p; unset -f p; p", "cd d; cd ..; p", "cd nodir; cd ..; p", "p >& 'a$(hidden)'", "p {a[$(p x)]}>out",
			"for x in a b; do $y; export $x=hidden; done", "xb=hidden; command $x{b,}", "IFS= read -r x <f; p \"$x\"")
	case 0:
		return "cd " + pick(g, "d", "e", "nodir", "e/d", "$x", "", "~", `"$HOME"`, "./d", "-", "e && p") + pick(g, "", "", " && p", " || p", "; p", " || exit")
	case 1:
		return pick(g, "x", "y", "X", "K", "z") + "=" + pick(g, "a", "p", "hidden", "'a b'", "$x", "~", "$(q)", "1", "\"$x\"", "a:~", "$y$x", "*")
	case 2:
		return "export " + pick(g, "x=1", "X", "x", "Y=$x", "X=a:~", `"X=$(q)"`, "X=$(q)", "Y=~", "x y=2")
	case 3:
		return pick(g, "K=1", "x=2", "X=$x", "y='a b'", "K=~/a", "Y=$(q)", "X=") + " " + pick(g, "p ", "q ", "h ", ": ", "export ", "command p ", "eval p ") +
			g.words(1)
	case 4:
		return pick(g, "exec p a", "exec >out", "command p a", "command -v p", "builtin cd d", "exec 3>out3", "command cd d", "\\p a", "'p' a", `"p" a`, "p'q'")
	case 5:
		return g.document()
	case 6:
		return pick(g, "unset x", "unset X", "set -- a b", "set -e", "set -a", "read x", "read -r x y", "readonly z=1", "local x=1", "shift", "exit", "exit 1", "true",
			"false", "return", ":", "set -f", "set -u", "unset -f h", "set +e")
	case 7:
		return pick(g, "[ $x = a ]", `[ "$x" = a ]`, "[ -n \"$x\" ]", "[ $(sub) ]", "[ $? -eq 0 ]", "test -f f", "[[ $x == a ]]", "[[ -n $x ]]", "[[ $x -eq 1 ]]", "test $(sub)",
			`[ "$(opt)" "$y" ]`, "[[ a =~ (a|b) ]]", "[ -f f -a -n \"$x\" ]")
	case 8:
		return pick(g, "((x=1))", "((x++))", "let x=1", "echo $((x+1))", "x=$((x+1))", "y='a[$(hidden)]'", "echo $((y))", "((y))", "declare -i x", "declare x=2",
			"printf -v x hidden", "printf '%s\\n' $x", "printf $(sub)", "a[0]=1", "x+=b", "a=(p q)", "y+=(1)", "mapfile -t x", "shopt -s nullglob",
			"typeset x=1", "coproc p a", "time p", "select x in a; do p; done </dev/null", "alias p=hidden", "alias")
	case 9:
		return "p " + g.word() + pick(g, " >out", " >>out", " 2>&1", " <f", " >\"$x\"", " >&2", " &>out", " 2>out 1>&2", " >|out", " <>out", " <<<a", " >d/out", " >out$x",
			" >*", " {x}>out", " 3<f 0<&3", " >&out", ">~/w/k/o", " >{out,b}", " <<<\"$(p h)\"")
	case 10:
		return g.word() + " " + g.words(2)
	case 11:
		return "p " + g.word() + " # " + pick(g, "comment", "it's", "(", "\\", "`", "$(p", "end \\", "\"")
	case 12:
		return fmt.Sprintf("$(%s)", pick(g, "name", "cmd", "q", "p"))
	case 13:
		return pick(g, "$x a", "${x:-p} b", "$y", "\"$x\" a", "*", "./f", "~/p a", "{p,q} a", "p{,} b", "$(name) a", "=p a")
	}
	return pick(g, "p", "q", "p", "no", "rem") + " " + g.words(3)
}

func (g *generator) document() string {
	delim := pick(g, "E", "'E'", "\"E\"", "\\E", "E", "E\"\"", "$x", "'E F'", "-E", "-'E'")
	end := strings.Trim(delim, `\'"-`)
	body := pick(g, "text", "$(p d)", "`p d`", "$x", "\\", "a\\", "'$(p k)'", "${x:-'$(p l)'}", "\tE", " E", "E ", "\"", "$((1))", "\\$(p m)", "")
	doc := body + "\n" + pick(g, "", "", "more\n", "\\\n", "\n") + pick(g, "", "", "", "\t") + end + "\n"
	command := pick(g, "p", "q", "no") + " <<" + delim + pick(g, "", "", " a", " | p b", " && p c", "; p d", " >out")
	if g.IntN(3) > 0 {
		return command + "\n" + doc + "p after"
	}
	g.docs = append(g.docs, doc)
	return command
}
