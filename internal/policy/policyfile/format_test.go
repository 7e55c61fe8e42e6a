package policyfile

import (
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

// The built-in files are laid out as Format would.
func TestBuiltinFilesAreFormatted(t *testing.T) {
	for _, name := range []string{"runtime", "protect", "secrets", "default", "tools", "starter", "preset_readonly", "preset_python", "preset_node", "preset_go", "preset_git"} {
		got, err := Format(name, builtinText(name))
		if err != nil || string(got) != string(builtinText(name)) {
			t.Errorf("%s: %v", name, err)
		}
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
