package shell

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// TestLimits analyses large and deeply nested scripts: in little time, and unclear where a limit applies.
func TestLimits(t *testing.T) {
	const n = maxScript - 100
	repeat := func(s string) string { return strings.Repeat(s, n/len(s)) }
	for name, script := range map[string]struct {
		text  string
		clear bool
	}{
		"8 MiB":           {strings.Repeat("ls;", 8<<20/3), false},
		"many commands":   {repeat("ls;"), true},
		"many words":      {repeat("ls ") + "x", true},
		"long chain":      {repeat("a&&") + "a", true},
		"long pipeline":   {repeat("a|") + "a", true},
		"subshells":       {repeat("("), false},
		"closed ones":     {strings.Repeat("(", 5000) + "a" + strings.Repeat(")", 5000), false},
		"substitutions":   {strings.Repeat("$(", 5000) + "a" + strings.Repeat(")", 5000), false},
		"quoted brackets": {repeat(`(")"`), false},
		"if":              {repeat("if "), false},
		"elif":            {"if a; then b;" + repeat("elif a; then b; ") + "fi", true},
		"functions":       {repeat("a()"), false},
		"negations":       {repeat("! "), false},
		"unary":           {"echo $((" + repeat("-") + "1))", false},
		"ternary":         {"echo $((" + repeat("1?") + "1))", false},
		"sum":             {"echo $((" + repeat("1+") + "1))", true},
		"assignments":     {"echo $((" + repeat("a=") + "1))", false},
		"variables":       {numbered("V#=#;a;", 8000), false},
		"doubled":         {"x=aaaaaaaaaa;" + strings.Repeat("x=$x$x;", 10_000) + "a $x", true},
		"one variable":    {"x=" + strings.Repeat("a", maxValue) + ";" + strings.Repeat("a $x;", 10_000), true},
		"braces":          {"a " + strings.Repeat("{a,b}", 5000), true},
		"nested braces":   {"a " + strings.Repeat("{a,", 5000) + strings.Repeat("}", 5000), true},
		"directories":     {numbered("cd d#;", 8000) + "a", true},
		"here-documents":  {repeat("a <<E\nE\n"), true},
		"backquotes":      {repeat("`"), false},
		"tests":           {"[[ " + repeat("! ") + "a ]]", false},
		"conditions":      {"[[ a" + repeat(" && a") + " ]]", true},
		"eval":            {strings.Repeat("eval ", 20) + "a", true},
		"evals":           {repeat("eval 'eval a';"), true},
		"comments":        {repeat("#\n"), true},
		"assigned chain":  {repeat("x=1&&"), false},
		"cd chain":        {repeat("cd a&&") + "b", true},
		"carriage return": {"a\r\nb", false},
		"NUL":             {"a\x00b", false},
		"UTF-8":           {"a \xff", false},
		"backslash":       {`a \`, false},
		"escape":          {"a \x1b[0m", false},
	} {
		for _, d := range []Dialect{Bash, POSIX, Zsh} {
			start := cpuTime()
			e := Analyze(&program.Script{Text: script.text}, d)
			if took := cpuTime() - start; took > 2*time.Second {
				t.Errorf("%s: took %s", name, took)
			}
			if d == Bash && (len(e.Unclear) == 0) != script.clear {
				t.Errorf("%s: %.300q", name, e.Unclear)
			}
		}
	}
}

// cpuTime is what this process has used: a loaded machine makes no difference.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#", strconv.Itoa(i)))
	}
	return b.String()
}

// FuzzAnalyze requires that no script makes the analysis panic or take long, and that its words are fit for a message.
func FuzzAnalyze(f *testing.F) {
	for _, name := range []string{"attacks", "everyday", "lists", "redirects", "words"} {
		text := childtest.ReadFile(f, "testdata/"+name+".txt")
		for row := range strings.SplitSeq(string(text), "\n\n") {
			_, script, _ := strings.Cut(row, "$ ")
			f.Add(script)
		}
	}
	f.Fuzz(func(t *testing.T, script string) {
		for _, d := range []Dialect{Bash, POSIX, Zsh} {
			start := cpuTime()
			e := Analyze(&program.Script{Text: script}, d)
			if took := cpuTime() - start; took > 2*time.Second {
				t.Errorf("took %s", took)
			}
			for _, u := range e.Unclear {
				if len(u.Word) > maxShown || strings.ContainsAny(u.Word+u.Why, "\n\x1b\x00") || strings.Contains(u.Why, "runtime error") {
					t.Errorf("%q: %q", u.Word, u.Why)
				}
			}
			for _, c := range e.Calls {
				if len(c.Argv) == 0 {
					t.Error("a call without words")
				}
			}
		}
	})
}
