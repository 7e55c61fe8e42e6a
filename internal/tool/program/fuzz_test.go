package program

import (
	"strings"
	"testing"
	"time"
)

// FuzzInspect: any words end without a panic, in a time that grows with them, and never add a file of a word that isn't known.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{
		"env -S 'a b' -u x A=1 ls", "tar xIf ./x a --to-c", "sed -n 's/[/]/x/e;a\\' -e p", "find . -exec a {} + -fprintf", "git -c a.b=c -C d rebase -x", "awk '/a/ {print > \"x\"}' f",
		"xargs -I{} sh -c {}", "bash -euo pipefail -c x", "sort --compress-p", "$x", "timeout \"$t\" 5 ls", "ssh -o a=b h -p", "perl -lane x", "java -XX:a=b -jar x", "make %=$x -f -", "busybox busybox busybox sh -c x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := parseWords(line)
		if len(words) == 0 {
			return
		}
		e := Inspect(&Call{Argv: words})
		for _, file := range e.Files {
			if !file.Path.Known || file.Access == 0 {
				t.Errorf("%q has the file %v", line, file)
			}
		}
		for _, c := range e.Calls {
			if len(c.Argv) == 0 {
				t.Errorf("%q has a call without words", line)
			}
		}
	})
}

// TestLinear: a call with very many words, or a very long one, takes about as much longer as it's longer.
func TestLinear(t *testing.T) {
	const n = 50_000
	for _, row := range []string{
		"env |A=1 |ls", "env |-u A |ls", "env |-S x |ls", "tar |-x |f", "tar |--un |f", "find |a |-exec b {} ;", "find . |-exec \"$x\" |;", "find . |-exec a {} ; |-o", "xargs |-t |{}", "git |-C d |status", "git |-C $d/x |status", "git |-c a.b=c |log",
		"sed |-e p |f", "sed -e |-e 's/[[:a:]]/b/;' |f", "awk |-v a=1 |x", "grep |-e x |f", "sh |-e |x", "ssh |-v |h", "curl |-d @x |y", "parallel |a |b", "rm |x |y", "rm |$x |y", "strace |-E A=1 |ls", "bash |-o x |-c", "scp |a:b |c", "git config |x |y",
	} {
		parts := strings.Split(row, "|")
		words := parseWords(parts[0])
		for range n {
			words = append(words, parseWords(parts[1])...)
		}
		words = append(words, parseWords(parts[2])...)
		start := time.Now()
		Inspect(&Call{Argv: words})
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%s %d times took %v", row, n, d)
		}
	}
	for _, row := range []string{"sed |s/[^/]*$//;|", "sed |{|", "sed |[|", "awk |/a/ {x = 1}|", "awk |(|", "awk |a / b |", "env -S |a |", "tar |x|", "bash -|e|", "git -c |a.|", "chmod |:|"} {
		parts := strings.Split(row, "|")
		words := append(parseWords(parts[0]), Literal(strings.Repeat(parts[1], n)))
		start := time.Now()
		Inspect(&Call{Argv: words})
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%s %d times took %v", row, n, d)
		}
	}
}
