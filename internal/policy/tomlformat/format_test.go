package tomlformat

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

func TestFormat(t *testing.T) {
	const from = `

# What it's for.


version=1   # the only one
name   =   'x'
extends = [ "a.toml" ,
"b.toml" , # the second

  # all of them
     "c.toml"
  ]
# The grants.
[ access ]

default={net="deny",fs="deny"}
[[access.fs]]
path="."
  read   = true


write = true
[[ access . fs ]]
path = """
a
  b"""
[access.commands."/bin/x y"]
args=[["a","**"],[]]
[limits]#here
when = 1979-05-27 07:32:00
`
	const want = `# What it's for.

version = 1 # the only one
name = 'x'
extends = ["a.toml",
  "b.toml", # the second

  # all of them
  "c.toml"
]

# The grants.
[access]
default = { net = "deny", fs = "deny" }

[[access.fs]]
path = "."
read = true

write = true

[[access.fs]]
path = """
a
  b"""

[access.commands."/bin/x y"]
args = [["a", "**"], []]

[limits] #here
when = 1979-05-27 07:32:00
`
	got, err := Format("p.toml", []byte(from))
	childtest.Must(t, err)
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
	again, err := Format("p.toml", got)
	if err != nil || string(again) != want {
		t.Errorf("the second time: %v\n%s", err, again)
	}
	if _, err := Format("p.toml", []byte("a = = 1")); err == nil || err.Error() != "p.toml:1:5: not valid TOML: incomplete number" {
		t.Errorf("a mistake: %v", err)
	}
}

func TestFormatRows(t *testing.T) {
	for from, want := range map[string]string{
		"": "", "\n\n": "", "a = 1\n\n\n": "a = 1\n",
		"a = 1\r\n\r\n# c \r\n[b]\r\n": "a = 1\n\n# c\n[b]\n",
		`a = 'x\'   # c`:               "a = 'x\\' # c\n",
		`a = "x\"y"   # c`:             "a = \"x\\\"y\" # c\n",
		`a = """x"y""""   # c`:         "a = \"\"\"x\"y\"\"\"\" # c\n",
		`a = """x""""`:                 "a = \"\"\"x\"\"\"\"\n",
	} {
		if got, err := Format("p.toml", []byte(from)); err != nil || string(got) != want {
			t.Errorf("%q: %q, want %q (%v)", from, got, want, err)
		}
	}
}

// What would not be formatting.
func TestSameTree(t *testing.T) {
	tree := func(text string) *tomltree.Node {
		n, err := tomltree.Parse([]byte(text))
		if err != nil { // a nil *Error isn't a nil error
			t.Fatal(err)
		}
		return n
	}
	for _, x := range [][2]string{
		{"a = 1", "a = 2"},
		{"a = 'x'", "a = 'y'"},
		{"a = true", "a = false"},
		{"a = 1", "a = true"},
		{"a.b = 1", "a.b = 2"},
		{"a = {b = 1}", "a.b = 1"},
		{"a = [1]", "a = [1, 1]"},
		{"a = [1]", "a = [2]"},
		{"a = 1", "a = 1\nb = 1"},
		{"a = 1", "b = 1"},
		{"a = 1\nb = 2", "b = 2\na = 1"},
		{"[a]\nb = 1", "[a]\nb = 2"},
	} {
		if sameTree(tree(x[0]), tree(x[1])) || sameTree(tree(x[1]), tree(x[0])) {
			t.Errorf("%q", x)
		}
	}
}

// Formatting keeps the meaning, and formatting again changes nothing.
func FuzzFormat(f *testing.F) {
	for _, text := range []string{
		"a.b = 1\na.c = 2", "[a]\nb.c = 1\nb.d = 1", "[a.b]\n[a]", "[[a]]\n[[a]]\n[a.b]\nc = 1", "a = {b.c = 1, b.d = 2}", "\"\" = 1", "a = '''x''''",
		"a = \"\"\"\\\n\n x\"\"\"\"\"", "a = 1 # c\r\n\r\n[b]\r\n", "a = 0x1_F", "a = 1e5", "a = 07:32:00", "a = 1979-05-27 07:32:00", "\ufeffa = 1",
		"a = inf", "a = [\n\n1 , # x\n\n\n]", "[[x]]\na = [\n  1,\n  [2, 3],\n]\n\n# c\n[y]\n\"k k\" = {}", "a = = 1", "a = 07", "[a]\n[[a]]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, serr := tomltree.Parse([]byte(text))
		once, err := Format("p.toml", []byte(text))
		if (serr == nil) != (err == nil) {
			t.Fatalf("parse: %v, format: %v", serr, err)
		}
		if err != nil {
			return
		}
		after, serr := tomltree.Parse(once)
		if serr != nil || !sameTree(before, after) {
			t.Fatalf("%v\n%s", serr, once)
		}
		twice, err := Format("p.toml", once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%v\nonce\n%s\ntwice\n%s", err, once, twice)
		}
		if strings.Count(text, "#") > 0 && comments(text) != comments(string(once)) {
			t.Fatalf("comments changed:\n%s", once)
		}
	})
}

// comments joins the comments of a file.
func comments(text string) string {
	var b strings.Builder
	for src := []byte(text); len(src) > 0; {
		t, n := tomltree.NextToken(src)
		if t == tomltree.Comment {
			b.WriteString(strings.TrimRight(string(src[:n]), " \t\r") + "\n")
		}
		src = src[n:]
	}
	return b.String()
}
